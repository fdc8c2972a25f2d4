"""Curves of metrics in bounded memory: long trainings keep fewer points, never more."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

__all__ = ["Curve", "History", "Point"]


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
        self._kept: list[Point] = []
        self._every = 1
        self._seen = 0
        self._latest: Point | None = None

    def add(self, step: int, value: float) -> None:
        self._latest = Point(step, value)
        if self._seen % self._every == 0:
            self._kept.append(self._latest)
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
        if self._latest is None or self._kept[-1] == self._latest:
            return list(self._kept)
        return [*self._kept, self._latest]

    @property
    def values(self) -> list[float]:
        return [point.value for point in self.points]


class History:
    """
    A curve for each metric.

    :param max_points: of each curve
    """

    def __init__(self, max_points: int = 512) -> None:
        self._max_points = max_points
        self.curves: dict[str, Curve] = {}

    def add(self, step: int, values: Mapping[str, float]) -> None:
        """
        :param step: timesteps
        :param values: numbers by name
        """
        for name, value in values.items():
            if name not in self.curves:
                self.curves[name] = Curve(self._max_points)
            self.curves[name].add(step, value)
