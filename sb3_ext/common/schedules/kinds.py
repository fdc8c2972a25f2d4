"""The kinds of schedules: pure functions of the timestep, printed as they are written in a config."""

import bisect
import math
from abc import ABC, abstractmethod
from collections.abc import Sequence

__all__ = ["SHAPES", "Constant", "Curve", "LinearToZero", "Points", "Schedule"]

SHAPES = ("linear", "cosine", "exponential", "step", "constant")


class Schedule(ABC):
    """
    A number that changes over training. Its value depends only on the timestep and the length of training, so it is
    right after a resume and when training is extended.

    Positions up to 1 are fractions of training, larger ones are timesteps. SB3 calls a schedule with the remaining
    progress alone; the algorithm tells it the length of training before (:meth:`bind`).
    """

    _total: float | None = None

    @abstractmethod
    def at(self, timestep: float, total: float) -> float:
        """
        :param timestep: timesteps trained so far
        :param total: timesteps of the whole training
        """

    @property
    @abstractmethod
    def extremes(self) -> tuple[float, ...]:
        """Values that include the smallest and the largest, the first one first."""

    @property
    def positions(self) -> tuple[float, ...]:
        """Where it changes its course."""
        return ()

    def bind(self, total: float) -> None:
        self._total = max(float(total), 1.0)

    def __call__(self, progress_remaining: float) -> float:
        total = 1.0 if self._total is None else self._total
        return self.at((1.0 - progress_remaining) * total, total)

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and repr(self) == repr(other)

    def __hash__(self) -> int:
        return hash(repr(self))


class Constant(Schedule):
    def __init__(self, value: float) -> None:
        self.value = float(value)

    @property
    def extremes(self) -> tuple[float, ...]:
        return (self.value,)

    def at(self, timestep: float, total: float) -> float:
        return self.value

    def __repr__(self) -> str:
        return f"{self.value:g}"


class LinearToZero(Schedule):
    """
    RL Zoo's ``lin_0.001``, computed as RL Zoo computes it, so that results are the same to the last bit. (SB3 trains a
    little longer than asked when a rollout is not done; RL Zoo's schedule is negative then, this one 0.)
    """

    def __init__(self, start: float) -> None:
        self.start = float(start)

    @property
    def extremes(self) -> tuple[float, ...]:
        return (self.start, 0.0)

    def at(self, timestep: float, total: float) -> float:
        return self(1.0 - timestep / total)

    def __call__(self, progress_remaining: float) -> float:
        return max(progress_remaining, 0.0) * self.start

    def __repr__(self) -> str:
        return f"lin_{self.start:g}"


class Curve(Schedule):
    """
    From one value to another.

    :param start: value before and at ``begin``
    :param end: value from ``finish`` on
    :param shape: how it gets there: ``linear``, ``cosine``, ``exponential``, ``step`` (jumps at ``finish``),
        ``constant`` (stays at ``start``)
    :param begin: where it begins to change; ``from`` in YAML
    :param finish: where it stops changing; ``to`` in YAML
    :param minimum: lower bound; ``min`` in YAML
    :param warmup: rises linearly from 0 to ``start`` until here, first
    """

    def __init__(
        self,
        start: float,
        end: float = 0.0,
        shape: str = "linear",
        begin: float = 0.0,
        finish: float = 1.0,
        minimum: float | None = None,
        warmup: float = 0.0,
    ) -> None:
        self.start, self.end, self.shape = float(start), float(end), shape
        self.begin, self.finish = float(begin), float(finish)
        self.minimum = None if minimum is None else float(minimum)
        self.warmup = float(warmup)

    @property
    def extremes(self) -> tuple[float, ...]:
        values = (self.start,) if self.shape == "constant" else (self.start, self.end)
        return values if self.minimum is None else tuple(max(value, self.minimum) for value in values)

    @property
    def positions(self) -> tuple[float, ...]:
        return self.begin, self.finish, self.warmup

    def bind(self, total: float) -> None:
        super().bind(total)
        if _timestep(self.finish, total) <= _timestep(self.begin, total):
            raise ValueError(f"{self} ends before it starts to change, in a training of {total:g} timesteps.")

    def at(self, timestep: float, total: float) -> float:
        warmup = _timestep(self.warmup, total)
        if timestep < warmup:
            value = self.start * timestep / warmup
        else:
            value = self._value_after(_fraction(timestep, _timestep(self.begin, total), _timestep(self.finish, total)))
        return value if self.minimum is None else max(value, self.minimum)

    def _value_after(self, fraction: float) -> float:
        """The value after a fraction of the way."""
        if self.shape == "constant":
            return self.start
        if fraction >= 1.0:
            return self.end
        if self.shape == "step":
            return self.start
        if self.shape == "exponential":
            return self.start * (self.end / self.start) ** fraction
        if self.shape == "cosine":
            fraction = (1.0 - math.cos(math.pi * fraction)) / 2.0
        return self.start + fraction * (self.end - self.start)

    def __repr__(self) -> str:
        options = [f"start: {self.start:g}", f"end: {self.end:g}", f"shape: {self.shape}"]
        defaults = {"from": (self.begin, 0.0), "to": (self.finish, 1.0), "warmup": (self.warmup, 0.0)}
        options += [f"{name}: {value:g}" for name, (value, default) in defaults.items() if value != default]
        if self.minimum is not None:
            options.append(f"min: {self.minimum:g}")
        return f"{{{', '.join(options)}}}"


class Points(Schedule):
    """
    Straight lines between points, and constant before the first and after the last.

    :param points: pairs of a position and the value there, in order
    """

    def __init__(self, points: Sequence[tuple[float, float]]) -> None:
        self.points = [(float(position), float(value)) for position, value in points]

    @property
    def extremes(self) -> tuple[float, ...]:
        return tuple(value for _, value in self.points)

    @property
    def positions(self) -> tuple[float, ...]:
        return tuple(position for position, _ in self.points)

    def at(self, timestep: float, total: float) -> float:
        positions = [_timestep(position, total) for position, _ in self.points]
        after = bisect.bisect_right(positions, timestep)
        if after == 0:
            return self.points[0][1]
        if after == len(positions):
            return self.points[-1][1]
        before_value, after_value = self.points[after - 1][1], self.points[after][1]
        return before_value + _fraction(timestep, positions[after - 1], positions[after]) * (after_value - before_value)

    def __repr__(self) -> str:
        return f"[{', '.join(f'[{position:g}, {value:g}]' for position, value in self.points)}]"


def _timestep(position: float, total: float) -> float:
    return position * total if position <= 1.0 else position


def _fraction(timestep: float, begin: float, finish: float) -> float:
    """Fraction of the way from ``begin`` to ``finish``, from 0 to 1."""
    if timestep >= finish:
        return 1.0
    return max(0.0, (timestep - begin) / (finish - begin))
