"""A bonus for rarely seen states. Observations are counted by the cell of a grid they are in."""

import math
import os
import tempfile
import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, ClassVar

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from stable_baselines3.common.vec_env import VecEnv

from sb3_ext.common.arguments import read_flag
from sb3_ext.wrappers.shaping.terms import RewardTerms, Step

__all__ = ["CountBonus", "StateCells", "share_counts"]

_DTYPE = np.dtype(np.uint32)
#: More cells are a mistake: most would never be seen twice
_MAX_CELLS = 1_000_000


class CountBonus(RewardTerms):
    """
    The term ``count``: 1/√n, where n is how often the new state was seen, this time included.

    States are cells of a grid over the observations. A reset with a seed clears the counts of this environment; other
    resets don't. Counts are not saved with a model, but with the state of its environments.

    :param env: the environment
    :param terms: weights by name; ``{count: 1}`` by default
    :param bins: cells along each dimension of a Box, one number or one per dimension; Discrete spaces need none
    :param low: where the grid starts, one number or one per dimension; by default the space's bounds
    :param high: where it ends; values outside count for the outermost cells
    :param dimensions: indices of the observation's numbers that make up a state; by default all
    :param shared: count what all environments of a training have seen, even in other processes; see
        :func:`share_counts`
    """

    default_terms: ClassVar[Mapping[str, float]] = {"count": 1.0}

    def __init__(
        self,
        env: gym.Env,
        terms: Mapping[str, float] | None = None,
        bins: int | Sequence[int] = 20,
        low: float | Sequence[float] | None = None,
        high: float | Sequence[float] | None = None,
        dimensions: Sequence[int] | None = None,
        shared: bool = False,
    ) -> None:
        super().__init__(env, terms)
        self._cells = StateCells(env.observation_space, bins, low, high, dimensions)
        self._shared = read_flag("shared", shared)
        # A row per cell, a column per environment: each writes only to its own
        self._counts = np.zeros((self._cells.n_cells, 1), _DTYPE)
        self._column = 0
        self._needs_sharing = self._shared

    def shared_cells(self) -> int:
        """Number of cells to share; 0 if this environment counts for itself."""
        return self._cells.n_cells if self._shared else 0

    def attach_counts(self, path: str, n_envs: int, column: int) -> None:
        """Count in a column of a memory-mapped file; see :func:`share_counts`."""
        # A plain view of the memory: each row of a memmap would be a memmap, which is slow
        self._counts = np.asarray(np.memmap(path, _DTYPE, "r+", shape=(self._cells.n_cells, n_envs)))
        self._column = column
        self._needs_sharing = False

    def save_env_state(self) -> dict[str, Any]:
        """The counts of this environment. The memory stays where it is, since others may share it."""
        own = self._counts[:, self._column].copy()
        return {"_counts": own, "_column": self._column, "_needs_sharing": self._needs_sharing}

    def load_env_state(self, state: dict[str, Any]) -> None:
        self._counts[:, self._column] = state["_counts"]

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        if seed is not None:
            self._counts[:, self._column] = 0
        return super().reset(seed=seed, options=options)

    def term_count(self, step: Step) -> float:
        if self._needs_sharing:
            self._needs_sharing = False
            warnings.warn(
                "CountBonus has shared: true, but share_counts() was not called, so it counts for itself. For "
                "evaluation this is fine. For training call share_counts(env) with the vectorised environment before "
                "learn(); RL Zoo does so with our algorithms.",
                stacklevel=2,
            )
        row = self._counts[self._cells.index(step.observation)]
        row[self._column] += 1
        return 1.0 / math.sqrt(row.sum())


def share_counts(env: VecEnv) -> None:
    """
    Let all environments with a ``CountBonus`` and ``shared: true`` count together, even in several processes.

    Environments for evaluation are separate and don't change what training counts.

    :param env: the vectorised environment of a training
    """
    if not env.has_attr("shared_cells"):
        return
    sizes = env.env_method("shared_cells")
    for size in sorted(set(sizes) - {0}):
        _share(env, [index for index, other in enumerate(sizes) if other == size], size)


def _share(env: VecEnv, indices: list[int], n_cells: int) -> None:
    # A memory-mapped file: unlike multiprocessing's arrays, it can be given to processes that run already
    descriptor, path = tempfile.mkstemp(prefix="sb3-ext-counts-")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(bytes(n_cells * len(indices) * _DTYPE.itemsize))
        for column, index in enumerate(indices):
            env.env_method("attach_counts", path, len(indices), column, indices=[index])
    finally:
        # It exists without a name until the last process that uses it ends. Windows keeps the temporary file
        with suppress(PermissionError):
            os.unlink(path)


class StateCells:
    """
    Numbers the cells of a grid over a Box. The states of a Discrete or MultiDiscrete space are cells themselves. The
    parameters are those of :class:`CountBonus`.
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
                f"bins={bins!r} in {n} dimensions make {n_cells:.0f} cells, more than {_MAX_CELLS}: use fewer bins, or "
                "name the dimensions that matter with dimensions=[…]."
            )
        self.n_cells = int(n_cells)
        self._strides = np.append(np.cumprod(self._bins[:0:-1])[::-1], 1).astype(float)

    def index(self, observation: Any) -> int:
        """The number of an observation's cell."""
        values = np.asarray(observation, np.float64).reshape(-1)
        if self._chosen is not None:
            values = values[self._chosen]
        # np.clip takes three times as long for so few numbers
        cells = np.minimum(np.maximum((values - self._low) * self._scale, 0.0), self._last)
        cell = np.floor(cells) @ self._strides
        if not cell >= 0:
            raise ValueError(f"The observation {observation} contains NaN and is in no cell.")
        return int(cell)

    def _check_range(self, chosen: list[int]) -> None:
        for place, dimension in enumerate(chosen):
            low, high = self._low[place], self._high[place]
            # Some spaces use the largest float32 for "unbounded"
            if not (np.isfinite(high - low) and high - low < 1e30):
                raise ValueError(
                    f"Number {dimension} of the observation is unbounded ({low:g} to {high:g}): set low and high, or "
                    "leave it out with dimensions=[…]."
                )
            if low >= high:
                raise ValueError(f"low={low:g} must be below high={high:g}, for number {dimension} of the observation.")


def _natural_grid(space: spaces.Space) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Low and high of each dimension, and the number of cells if the space is discrete."""
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


def _read_each(option: str, raw: Any, n: int) -> np.ndarray:
    try:
        values = np.asarray(raw, float)
    except (TypeError, ValueError):
        raise ValueError(f"{option}={raw!r} must be a number, or one per dimension.") from None
    if values.ndim > 1 or values.size not in (1, n):
        raise ValueError(f"{option}={raw!r} has {values.size} numbers, but there are {n} dimensions.")
    return np.full(n, values.reshape(-1)) if values.size == 1 else values


def _read_bins(bins: Any, n: int) -> np.ndarray:
    values = _read_each("bins", bins, n)
    if not (np.all(values >= 1) and np.all(values == np.floor(values))):
        raise ValueError(f"bins={bins!r} must be whole numbers, at least 1.")
    return values.astype(np.int64)
