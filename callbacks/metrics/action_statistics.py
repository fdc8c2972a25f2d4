"""Statistics of the actions taken, for every action space."""

import math

import numpy as np
from gymnasium import spaces

from sb3_ext.callbacks.metrics.recent_data import MAX_NUMBERS, RecentData, even_stride
from sb3_ext.callbacks.metrics.rollout_statistics import summarize

__all__ = ["ActionStatistics"]

#: A squashed action never reaches its bounds; this is close enough to count
_NEAR = 0.99


class ActionStatistics:
    """``squashed``: the buffer has actions scaled to -1 and 1, whatever the bounds of the space."""

    def __init__(self, space: spaces.Space, squashed: bool) -> None:
        self._width = math.prod(space.shape or ()) or 1
        self._is_box = isinstance(space, spaces.Box)
        self._squashed = squashed and self._is_box
        if isinstance(space, spaces.Box):
            self._low, self._high = (bound.reshape(-1).astype(np.float64) for bound in (space.low, space.high))

    def sample(self, data: RecentData) -> np.ndarray:
        """Some of the collected actions, one per row, as the buffer has them."""
        actions = data.actions.reshape(-1, self._width)
        stride = even_stride(len(actions), max(MAX_NUMBERS // self._width, 1), data.n_envs)
        return actions[::stride].astype(np.float64)

    def numbers(self, sample: np.ndarray) -> np.ndarray:
        """All numbers of a sample, in the units of the space."""
        if self._squashed:
            sample = self._low + (sample + 1.0) * 0.5 * (self._high - self._low)
        return sample.reshape(-1)

    def describe(self, sample: np.ndarray) -> dict[str, float]:
        metrics = summarize(self.numbers(sample)).named("policy/action")
        if self._is_box:
            metrics["policy/action_saturation"] = self._saturation(sample)
        return metrics

    def _saturation(self, sample: np.ndarray) -> float:
        """Fraction of the actions at or beyond their bounds, which are finite in SB3."""
        if self._squashed:
            at_bounds = np.abs(sample) >= _NEAR
        else:
            at_bounds = (sample <= self._low) | (sample >= self._high)
        return np.count_nonzero(at_bounds) / at_bounds.size
