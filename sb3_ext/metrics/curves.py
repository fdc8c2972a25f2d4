"""Curves of metrics in bounded memory, however long the training."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from itertools import chain
from operator import itemgetter
from typing import Any, ClassVar, NamedTuple

import numpy as np

from sb3_ext.common.stateful import Stateful

__all__ = ["BoundedCurve", "CurveStore", "Series"]

#: Rows are added to the curves in batches of this size, or when a curve is read; one by one would be slower
_MAX_PENDING = 64

#: Place among all values, step and value
_Point = tuple[int, int, float]


class Series(NamedTuple):
    """One metric over a training. Steps never decrease; values may be NaN or infinite."""

    steps: np.ndarray
    values: np.ndarray

    @property
    def finite(self) -> Series:
        """Without NaN and infinity."""
        kept = np.isfinite(self.values)
        return Series(self.steps[kept], self.values[kept])

    @property
    def is_constant(self) -> bool:
        return bool(len(self.values)) and bool(np.all(self.values == self.values[0]))


class BoundedCurve(Stateful):
    """
    Takes any number of values. When it has ``max_points``, every second point is dropped, and from then on only every
    second new one is kept, so the points stay evenly spaced. The first and the last value are always kept; with
    :meth:`extend`, so are the smallest, the largest and the first one that is not finite.
    """

    state_names: ClassVar[tuple[str, ...]] = (
        "_every",
        "_steps",
        "_values",
        "_last",
        "_extremes",
        "n_values",
        "n_broken",
    )

    def __init__(self, max_points: int) -> None:
        self._max_points = max_points
        self._every = 1
        # 16 bytes for a point, where a tuple takes 120
        self._steps, self._values = array("q"), array("d")
        self._last: _Point = (0, 0, 0.0)
        self._extremes: dict[str, _Point] = {}
        #: Number of values so far, and of those that were not finite
        self.n_values = self.n_broken = 0

    @property
    def broken_from(self) -> int | None:
        """Step of the first value that is not finite."""
        return self._extremes["broken"][1] if "broken" in self._extremes else None

    def add(self, points: Sequence[tuple[int, float]]) -> None:
        """Add steps and values, in a fraction of a microsecond each."""
        for step, value in points[-self.n_values % self._every :: self._every]:
            self._steps.append(step)
            self._values.append(value)
        self._thin()
        self.n_values += len(points)
        self._last = self.n_values - 1, *points[-1]

    def extend(self, steps: np.ndarray, values: np.ndarray) -> None:
        if not len(values):
            return
        chosen = slice(-self.n_values % self._every, None, self._every)
        self._steps.extend(steps[chosen].tolist())
        self._values.extend(values[chosen].tolist())
        self._thin()
        self._update_extremes(steps, values)
        self.n_values += len(values)

    def series(self) -> Series:
        """The points, ordered by step."""
        added = [point for point in {self._last, *self._extremes.values()} if point[0] % self._every]
        places, steps, values = zip(*added, strict=True) if added else ((), (), ())
        n_kept = len(self._steps)
        all_places = np.array([*range(0, n_kept * self._every, self._every), *places], dtype=np.int64)
        all_steps = np.concatenate([np.array(self._steps, dtype=np.int64), np.array(steps, dtype=np.int64)])
        all_values = np.concatenate([np.array(self._values, dtype=float), np.array(values, dtype=float)])
        order = np.lexsort((all_places, all_steps))
        return Series(all_steps[order], all_values[order])

    def _thin(self) -> None:
        while len(self._steps) > self._max_points:
            del self._steps[1::2], self._values[1::2]
            self._every *= 2

    def _update_extremes(self, steps: np.ndarray, values: np.ndarray) -> None:
        def point(index: np.intp | int) -> _Point:
            return self.n_values + int(index), int(steps[index]), float(values[index])

        self._last = point(len(values) - 1)
        finite = np.isfinite(values)
        n_finite = int(np.count_nonzero(finite))
        if n_finite < len(values):
            self.n_broken += len(values) - n_finite
            self._extremes.setdefault("broken", point(np.argmin(finite)))
        if n_finite:
            low = point(np.argmin(np.where(finite, values, np.inf)))
            high = point(np.argmax(np.where(finite, values, -np.inf)))
            self._extremes["low"] = min(self._extremes.get("low", low), low, key=itemgetter(2))
            self._extremes["high"] = max(self._extremes.get("high", high), high, key=itemgetter(2))


class CurveStore(Stateful):
    """A curve for each metric."""

    def __init__(self, max_points: int = 512) -> None:
        self._max_points = max_points
        self._curves: dict[str, BoundedCurve] = {}
        self._pending: list[tuple[int, Mapping[str, float]]] = []

    def add(self, step: int, values: Mapping[str, float]) -> None:
        """Add a row of numbers by name, which must not change afterwards."""
        self._pending.append((step, values))
        if len(self._pending) >= _MAX_PENDING:
            self._flush()

    def __getitem__(self, name: str) -> BoundedCurve:
        """The curve of a metric; an empty one if it was never logged."""
        self._flush()
        return self._curves.get(name, BoundedCurve(self._max_points))

    def state(self) -> dict[str, Any]:
        self._flush()
        return {name: curve.state() for name, curve in self._curves.items()}

    def restore(self, state: Mapping[str, Any]) -> None:
        self._pending.clear()
        self._curves = {name: BoundedCurve(self._max_points) for name in state}
        for name, curve in self._curves.items():
            curve.restore(state[name])

    def _flush(self) -> None:
        for name in dict.fromkeys(chain.from_iterable(values for _, values in self._pending)):
            curve = self._curves.get(name)
            if curve is None:
                curve = self._curves[name] = BoundedCurve(self._max_points)
            curve.add([(step, values[name]) for step, values in self._pending if name in values])
        self._pending.clear()
