"""Observations as cells of a grid, to count or to tabulate them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium import spaces

__all__ = ["StateCells"]

#: More cells than this are a mistake: most would never be seen twice
_MAX_CELLS = 1_000_000


class StateCells:
    """
    Numbers the cells of a grid over a Box; the states of a Discrete or MultiDiscrete space are cells themselves.

    :param space: the observation space
    :param bins: cells along each dimension of a Box, one number or one for each
    :param low: where the grid starts, one number or one for each dimension; the space's bounds by default
    :param high: where it ends; what lies outside belongs to the outermost cells
    :param dimensions: indices of the observation's numbers that are looked at; all by default
    """

    def __init__(
        self,
        space: spaces.Space,
        bins: int | Sequence[int] = 20,
        low: float | Sequence[float] | None = None,
        high: float | Sequence[float] | None = None,
        dimensions: Sequence[int] | None = None,
    ) -> None:
        lows, highs, sizes = _natural_grid(space)
        chosen = _read_dimensions(dimensions, len(lows))
        n = len(chosen)
        self._chosen = None if dimensions is None else np.array(chosen)
        self._low = lows[chosen] if low is None else _read_each("low", low, n)
        self._high = highs[chosen] if high is None else _read_each("high", high, n)
        self._check_range(chosen)
        self._bins = _read_bins(bins, n) if sizes is None else sizes[chosen]
        self._scale = self._bins / (self._high - self._low)
        self._last = self._bins - 1
        n_cells = np.prod(self._bins, dtype=float)
        if n_cells > _MAX_CELLS:
            raise ValueError(
                f"bins={bins!r} in {n} dimensions make {n_cells:.0f} cells, and at most {_MAX_CELLS} are possible: "
                "use fewer bins, or name the dimensions that matter with dimensions=[…]."
            )
        self.n_cells = int(n_cells)
        # The last dimension's cells are neighbours
        self._strides = np.append(np.cumprod(self._bins[:0:-1])[::-1], 1).astype(float)

    def index(self, observation: Any) -> int:
        """
        :param observation: one observation
        :return: the number of its cell, from 0 to ``n_cells - 1``
        """
        values = np.asarray(observation, np.float64).reshape(-1)
        if self._chosen is not None:
            values = values[self._chosen]
        # minimum and maximum: np.clip takes thrice as long for so few numbers
        cells = np.minimum(np.maximum((values - self._low) * self._scale, 0.0), self._last)
        cell = np.floor(cells) @ self._strides
        if not cell >= 0:
            raise ValueError(f"The observation {observation} is in no cell: it has NaN in it.")
        return int(cell)

    def _check_range(self, chosen: list[int]) -> None:
        for place, dimension in enumerate(chosen):
            low, high = self._low[place], self._high[place]
            # Spaces say "unbounded" with the largest float32 too
            if not (np.isfinite(high - low) and high - low < 1e30):
                raise ValueError(
                    f"Number {dimension} of the observation has no bounds ({low:g} to {high:g}): give low and high for "
                    "the grid, or leave it out with dimensions=[…]."
                )
            if low >= high:
                raise ValueError(f"low={low:g} must be below high={high:g}, for number {dimension} of the observation.")


def _natural_grid(space: spaces.Space) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Low and high of each dimension, and the number of cells where the space has states by itself."""
    if isinstance(space, spaces.Discrete):
        start, size = np.array([space.start], float), np.array([space.n])
        return start, start + size, size
    if isinstance(space, spaces.MultiDiscrete):
        lows, sizes = space.start.reshape(-1).astype(float), space.nvec.reshape(-1)
        return lows, lows + sizes, sizes
    if isinstance(space, spaces.Box):
        return space.low.reshape(-1).astype(float), space.high.reshape(-1).astype(float), None
    raise ValueError(f"A grid needs a Box, Discrete or MultiDiscrete observation space, not {space}.")


def _read_dimensions(dimensions: Any, n: int) -> list[int]:
    if dimensions is None:
        return list(range(n))
    try:
        chosen = [int(dimension) for dimension in dimensions]
    except (TypeError, ValueError):
        raise ValueError(f"dimensions={dimensions!r} must be a list of indices, such as [0, 1].") from None
    if not chosen or len(set(chosen)) < len(chosen) or not all(0 <= dimension < n for dimension in chosen):
        raise ValueError(f"dimensions={dimensions!r} must be different indices from 0 to {n - 1}.")
    return chosen


def _read_each(option: str, written: Any, n: int) -> np.ndarray:
    try:
        values = np.asarray(written, float)
    except (TypeError, ValueError):
        raise ValueError(f"{option}={written!r} must be a number, or one for each dimension.") from None
    if values.ndim > 1 or values.size not in (1, n):
        raise ValueError(f"{option}={written!r} has {values.size} numbers, but there are {n} dimensions.")
    return np.full(n, values.reshape(-1)) if values.size == 1 else values


def _read_bins(bins: Any, n: int) -> np.ndarray:
    values = _read_each("bins", bins, n)
    if not (np.all(values >= 1) and np.all(values == np.floor(values))):
        raise ValueError(f"bins={bins!r} must be whole numbers, at least 1.")
    return values.astype(np.int64)
