"""Statistics of the actions that were taken, for every action space."""

from __future__ import annotations

import math

import numpy as np
from gymnasium import spaces

from sb3_ext.callbacks.metrics.recent_data import MAX_NUMBERS, Collected, even_stride
from sb3_ext.callbacks.metrics.rollout_statistics import summarize

__all__ = ["ActionStatistics"]

#: A squashed action never reaches its bounds: this near to them, it counts as if it did
_NEAR = 0.99


class ActionStatistics:
    """
    :param space: of the actions
    :param squashed: whether a buffer has them between -1 and 1, whatever the bounds of the space are
    """

    def __init__(self, space: spaces.Space, squashed: bool) -> None:
        self._width = math.prod(space.shape or ()) or 1
        self._is_box = isinstance(space, spaces.Box)
        self._squashed = squashed and self._is_box
        if isinstance(space, spaces.Box):
            self._low, self._high = (bound.reshape(-1).astype(np.float64) for bound in (space.low, space.high))

    def sample(self, collected: Collected) -> np.ndarray:
        """
        :param collected: what was collected
        :return: its actions or some of them, a row each, as the buffer has them
        """
        actions = collected.actions.reshape(-1, self._width)
        stride = even_stride(len(actions), max(MAX_NUMBERS // self._width, 1), collected.n_envs)
        return actions[::stride].astype(np.float64)

    def numbers(self, sample: np.ndarray) -> np.ndarray:
        """
        :param sample: what :meth:`sample` gave
        :return: all numbers in it, in the units of the space
        """
        if self._squashed:
            sample = self._low + (sample + 1.0) * 0.5 * (self._high - self._low)
        return sample.reshape(-1)

    def describe(self, sample: np.ndarray) -> dict[str, float]:
        """
        :param sample: what :meth:`sample` gave
        """
        metrics = summarize(self.numbers(sample)).named("policy/action")
        if self._is_box:
            metrics["policy/action_saturation"] = self._saturation(sample)
        return metrics

    def _saturation(self, sample: np.ndarray) -> float:
        """Share of the actions that are at their bounds or beyond; SB3 takes only spaces with finite ones."""
        if self._squashed:
            at_bounds = np.abs(sample) >= _NEAR
        else:
            at_bounds = (sample <= self._low) | (sample >= self._high)
        return np.count_nonzero(at_bounds) / at_bounds.size
