"""A bonus for states that were seen seldom, by counting them."""

from __future__ import annotations

import math
import os
import tempfile
import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, ClassVar

import gymnasium as gym
import numpy as np
from stable_baselines3.common.vec_env import VecEnv

from sb3_ext.common.arguments import read_flag
from sb3_ext.wrappers.shaping.state_cells import StateCells
from sb3_ext.wrappers.shaping.terms import RewardTerms, Step

__all__ = ["CountBonus", "share_counts"]

_DTYPE = np.dtype(np.uint32)


class CountBonus(RewardTerms):
    """
    The term ``count``: 1/√n, where n is how often the state that a step leads to was seen, this time included.

    States are cells of a grid over the observations. A reset with a seed begins a new life, in which this environment
    has seen nothing; other resets forget nothing. Counts are not saved with a model.

    :param env: the environment
    :param terms: weights by name; ``{count: 1}`` by default
    :param bins: cells along each dimension of a Box, one number or one for each; Discrete spaces need none
    :param low: where the grid starts, one number or one for each dimension; the space's bounds by default
    :param high: where it ends; what lies outside counts for the outermost cells
    :param dimensions: indices of the observation's numbers that make a state; all by default
    :param shared: count what all environments of a training have seen, in whatever process they are; see
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
        # A row for each cell, a column for each environment: each writes to its own, so none is in another's way
        self._counts = np.zeros((self._cells.n_cells, 1), _DTYPE)
        self._column = 0
        self._needs_sharing = self._shared

    def shared_cells(self) -> int:
        """:return: how many cells the counts have that this environment would share; 0 when it shares none"""
        return self._cells.n_cells if self._shared else 0

    def attach_counts(self, path: str, n_envs: int, column: int) -> None:
        """
        Count in a file that several environments have in memory; see :func:`share_counts`.

        :param path: the file
        :param n_envs: how many environments count in it
        :param column: this one's place among them
        """
        # A plain view of the same memory: a memmap makes every row a memmap, which takes long
        self._counts = np.asarray(np.memmap(path, _DTYPE, "r+", shape=(self._cells.n_cells, n_envs)))
        self._column = column
        self._needs_sharing = False

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        if seed is not None:
            self._counts[:, self._column] = 0
        return super().reset(seed=seed, options=options)

    def term_count(self, step: Step) -> float:
        if self._needs_sharing:
            self._warn()
        row = self._counts[self._cells.index(step.observation)]
        row[self._column] += 1
        return 1.0 / math.sqrt(row.sum())

    def _warn(self) -> None:
        self._needs_sharing = False
        warnings.warn(
            "CountBonus has shared: true, but counts for itself: nobody called share_counts(). For evaluation that is "
            "fine. For training call share_counts(env) with the vectorised environment before learn(); RL Zoo does so "
            "with our algorithms.",
            stacklevel=2,
        )


def share_counts(env: VecEnv) -> None:
    """
    Let the environments that have a ``CountBonus`` with ``shared: true`` count together, also in several processes.

    Others are left alone. The environments of an evaluation are not among them, and don't change what training counts.

    :param env: the vectorised environment of a training
    """
    if not env.has_attr("shared_cells"):
        return
    sizes = env.env_method("shared_cells")
    for size in sorted(set(sizes) - {0}):
        indices = [index for index, other in enumerate(sizes) if other == size]
        _share(env, indices, size)


def _share(env: VecEnv, indices: list[int], n_cells: int) -> None:
    # A file that all map into memory: unlike multiprocessing's arrays, processes that run already can be given it
    descriptor, path = tempfile.mkstemp(prefix="sb3-ext-counts-")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(bytes(n_cells * len(indices) * _DTYPE.itemsize))
        for column, index in enumerate(indices):
            env.env_method("attach_counts", path, len(indices), column, indices=[index])
    finally:
        # It lives on without a name until the last process that uses it ends. Windows keeps it among temporary files
        with suppress(PermissionError):
            os.unlink(path)
