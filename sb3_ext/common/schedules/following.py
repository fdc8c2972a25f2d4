"""How an algorithm follows schedules for its parameters.

SB3's algorithms read ``self.ent_coef``, ``self.gamma`` and so on as plain floats, so they stay floats: the schedule is
kept separately, and before each rollout and each update the floats are set to its value at that timestep. Parameters
that SB3 itself takes as schedules (``learning_rate``, ``clip_range``, ``clip_range_vf``) are passed to it as such.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from stable_baselines3.common.utils import FloatSchedule

from sb3_ext.common.schedules.kinds import Constant, Schedule
from sb3_ext.common.schedules.parsing import parse_schedule

__all__ = ["ScheduleSet"]

_MAY_BE_NONE = ("target_kl", "kl_adaptive_lr")
_SCHEDULES_OF_SB3 = ("learning_rate", "clip_range", "clip_range_vf")


class ScheduleSet(Mapping[str, Callable[[float], float]]):
    """
    The schedules of the parameters that have one, by name. It is saved with the model, so it does not keep the
    algorithm: each method is given it.
    """

    def __init__(self) -> None:
        self._schedules: dict[str, Callable[[float], float]] = {}
        #: The values that the schedules set last: a parameter with another value was set by someone else, and that
        #: replaces its schedule
        self._values: dict[str, float] = {}

    def __getitem__(self, name: str) -> Callable[[float], float]:
        return self._schedules[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._schedules)

    def __len__(self) -> int:
        return len(self._schedules)

    def read(self, algorithm: Any) -> None:
        """Parse the algorithm's parameters; numbers stay numbers."""
        for name in algorithm.schedulable:
            raw = getattr(algorithm, name)
            if raw is None and name in _MAY_BE_NONE:
                self._schedules.pop(name, None)
            elif name not in self._schedules or raw != self._values.get(name):
                schedule = parse_schedule(name, raw)
                self._schedules.pop(name, None)
                if not isinstance(schedule, Constant):
                    self._schedules[name] = schedule
                self._set(algorithm, name, float(schedule(1.0)))
        for name in _SCHEDULES_OF_SB3:
            raw = getattr(algorithm, name, None)
            if isinstance(raw, (str, dict, list, tuple)):
                schedule = parse_schedule(name, raw)
                setattr(algorithm, name, schedule.value if isinstance(schedule, Constant) else schedule)

    def follow(self, algorithm: Any, total_timesteps: int) -> None:
        """Set the parameters to their values at the algorithm's present progress."""
        self.read(algorithm)  # a callback may have set one
        for name, schedule in self.running(algorithm):
            if isinstance(schedule, Schedule):
                schedule.bind(total_timesteps)
            if name in self._schedules:
                self._set(algorithm, name, float(schedule(algorithm._current_progress_remaining)))

    def log(self, algorithm: Any) -> None:
        for name, schedule in self.running(algorithm):
            algorithm.logger.record(f"schedule/{name}", float(schedule(algorithm._current_progress_remaining)))

    def initial(self, algorithm: Any, name: str) -> Any:
        """:return: the value of a parameter at the start of training"""
        return self._schedules[name](1.0) if name in self._schedules else getattr(algorithm, name)

    def _set(self, algorithm: Any, name: str, value: float) -> None:
        setattr(algorithm, name, value)
        self._values[name] = value
        # The buffer computes advantages with its own copies of these
        buffer = getattr(algorithm, "rollout_buffer", None)
        if name in ("gamma", "gae_lambda") and buffer is not None:
            setattr(buffer, name, value)

    def running(self, algorithm: Any) -> Iterator[tuple[str, Callable[[float], float]]]:
        """Everything that changes during this training, SB3's schedules included."""
        yield from self._schedules.items()
        lr_schedule = {"learning_rate": getattr(algorithm, "lr_schedule", None)}
        for name, schedule in {**{n: getattr(algorithm, n, None) for n in _SCHEDULES_OF_SB3}, **lr_schedule}.items():
            inner = schedule.value_schedule if isinstance(schedule, FloatSchedule) else schedule
            if isinstance(inner, Schedule):
                yield name, inner
