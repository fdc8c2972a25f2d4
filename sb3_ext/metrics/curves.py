"""Curves of metrics in bounded memory: long trainings keep fewer points, never more."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

__all__ = ["Curve", "History", "Point"]

#: Rows that wait at most
_MAX_PENDING = 64


class Point(NamedTuple):
    """
    :param step: timesteps
    :param value: of the metric
    """

    step: int
    value: float


class Curve:
    """
    One metric over the training. When it is full, every second point is dropped, and from then on only every second
    new one is kept, and so on: the points stay evenly spaced. The latest point is always there.

    :param max_points: how many are kept
    """

    def __init__(self, max_points: int = 512) -> None:
        if max_points < 2:
            raise ValueError(f"max_points={max_points} must be 2 or more.")
        self._max_points = max_points
        # Points are made when someone asks: a plain pair takes a fifth of the time
        self._kept: list[tuple[int, float]] = []
        self._every = 1
        self._seen = 0
        self._latest: tuple[int, float] | None = None

    def add(self, step: int, value: float) -> None:
        self._latest = point = (step, value)
        if self._seen % self._every == 0:
            self._kept.append(point)
            if len(self._kept) > self._max_points:
                del self._kept[1::2]
                self._every *= 2
        self._seen += 1

    def __len__(self) -> int:
        """How many values the metric has had."""
        return self._seen

    @property
    def points(self) -> list[Point]:
        """From the first to the latest."""
        return [Point(step, value) for step, value in self._pairs()]

    @property
    def values(self) -> list[float]:
        return [value for _, value in self._pairs()]

    def _pairs(self) -> list[tuple[int, float]]:
        if self._latest is None or self._kept[-1] is self._latest:
            return self._kept
        return [*self._kept, self._latest]


class History:
    """
    A curve for each metric. Rows are put in it many at a time, when there are enough or someone looks: that takes
    several times less than one by one.

    :param max_points: of each curve
    """

    def __init__(self, max_points: int = 512) -> None:
        self._max_points = max_points
        self._curves: dict[str, Curve] = {}
        self._pending: list[tuple[int, Mapping[str, float]]] = []

    def add(self, step: int, values: Mapping[str, float]) -> None:
        """
        :param step: timesteps
        :param values: numbers by name, which nobody changes afterwards
        """
        self._pending.append((step, values))
        if len(self._pending) >= _MAX_PENDING:
            self._put_in()

    @property
    def curves(self) -> dict[str, Curve]:
        """By name of the metric."""
        if self._pending:
            self._put_in()
        return self._curves

    def _put_in(self) -> None:
        for step, values in self._pending:
            for name, value in values.items():
                curve = self._curves.get(name)
                if curve is None:
                    curve = self._curves[name] = Curve(self._max_points)
                curve.add(step, value)
        self._pending.clear()
