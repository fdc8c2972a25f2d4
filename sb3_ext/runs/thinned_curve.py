"""One metric over a training of any length, in bounded memory."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

__all__ = ["MAX_POINTS", "Series", "ThinnedCurve"]

#: A curve has about so many points at most
MAX_POINTS = 10_000


class Series(NamedTuple):
    """
    One metric over a training.

    :param steps: timesteps, never decreasing
    :param values: as many; NaN and infinity are kept
    """

    steps: np.ndarray
    values: np.ndarray

    @property
    def finite(self) -> Series:
        """Without NaN and infinity."""
        kept = np.isfinite(self.values)
        return Series(self.steps[kept], self.values[kept])

    @property
    def is_constant(self) -> bool:
        """Whether all values are the same number."""
        return bool(len(self.values)) and bool(np.all(self.values == self.values[0]))


class _Point(NamedTuple):
    place: int
    step: int
    value: float


class ThinnedCurve:
    """
    Takes any number of values. When there are too many, every second one is dropped, and from then on only every second
    new one is kept, and so on. The first and the last one, the smallest and the largest, and the first that is not
    finite are always there.

    :param max_points: how many are kept, beside those
    """

    def __init__(self, max_points: int = MAX_POINTS) -> None:
        self._max_points = max_points
        self._every = 1
        self._kept: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
        self._n_kept = 0
        self._last: _Point | None = None
        self._low: _Point | None = None
        self._high: _Point | None = None
        self._first_broken: _Point | None = None
        #: How many values there were
        self.n_values = 0
        #: How many of them were NaN or infinite
        self.n_broken = 0

    @property
    def broken_from(self) -> int | None:
        """The step of the first value that is not finite."""
        return None if self._first_broken is None else self._first_broken.step

    def add(self, steps: np.ndarray, values: np.ndarray) -> None:
        """
        :param steps: timesteps
        :param values: as many, which come after those before
        """
        if not len(values):
            return
        indices = np.arange(self.n_values, self.n_values + len(values))
        chosen = slice(-self.n_values % self._every, None, self._every)
        self._kept.append((indices[chosen].copy(), steps[chosen].copy(), values[chosen].copy()))
        self._n_kept += len(self._kept[-1][0])
        self.n_values += len(values)
        self._look_for_extremes(indices, steps, values)
        while self._n_kept > self._max_points:
            self._every *= 2
            places, kept_steps, kept_values = (array[::2].copy() for array in self._merged())
            self._kept = [(places, kept_steps, kept_values)]
            self._n_kept = len(self._kept[0][0])

    def series(self) -> Series:
        """:return: the points, in the order of their steps"""
        extra = {point for point in (self._last, self._low, self._high, self._first_broken) if point is not None}
        indices, steps, values = self._merged()
        there = set(indices[np.isin(indices, [point.place for point in extra])].tolist())
        added = [point for point in extra if point.place not in there]
        indices = np.append(indices, [point.place for point in added])
        steps = np.append(steps, [point.step for point in added]).astype(np.int64)
        values = np.append(values, [point.value for point in added])
        order = np.lexsort((indices, steps))
        return Series(steps[order], values[order])

    def _merged(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        indices, steps, values = zip(*self._kept, strict=True)
        return np.concatenate(indices), np.concatenate(steps), np.concatenate(values)

    def _look_for_extremes(self, indices: np.ndarray, steps: np.ndarray, values: np.ndarray) -> None:
        def point(at: int) -> _Point:
            return _Point(int(indices[at]), int(steps[at]), float(values[at]))

        self._last = point(-1)
        finite = np.isfinite(values)
        n_broken = len(values) - int(np.count_nonzero(finite))
        if n_broken:
            self.n_broken += n_broken
            self._first_broken = self._first_broken or point(int(np.argmin(finite)))
            if n_broken == len(values):
                return
        low = point(int(np.argmin(np.where(finite, values, np.inf))))
        high = point(int(np.argmax(np.where(finite, values, -np.inf))))
        if self._low is None or low.value < self._low.value:
            self._low = low
        if self._high is None or high.value > self._high.value:
            self._high = high
