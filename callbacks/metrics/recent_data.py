"""The latest data that an algorithm collected, from any kind of buffer."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from stable_baselines3.common.buffers import ReplayBuffer, RolloutBuffer
from stable_baselines3.common.vec_env import VecNormalize

__all__ = ["MAX_NUMBERS", "Observations", "RecentData", "even_stride", "recent_transitions", "thinned", "whole_rollout"]

Observations = np.ndarray | dict[str, np.ndarray]

#: Maximum number of numbers for a statistic; more would cost time and change nothing
MAX_NUMBERS = 10_000
#: Maximum number of transitions, and of bytes of observations, read from a replay buffer
_MAX_TRANSITIONS, _MAX_BYTES = 1000, 2_000_000


@dataclass(frozen=True)
class RecentData:
    """
    Observations as the algorithm sees them, and actions as the buffer has them. ``n_axes`` come before those of one
    observation: steps and environments, or only samples.
    """

    observations: Observations
    actions: np.ndarray
    n_axes: int
    n_envs: int

    @property
    def size(self) -> int:
        """Number of steps, counted in single environments."""
        return math.prod(self.actions.shape[: self.n_axes])

    def pick(self, indices: np.ndarray) -> Observations:
        if isinstance(self.observations, dict):
            return {key: self._pick(part, indices) for key, part in self.observations.items()}
        return self._pick(self.observations, indices)

    def _pick(self, part: np.ndarray, indices: np.ndarray) -> np.ndarray:
        return part.reshape(self.size, *part.shape[self.n_axes :])[indices]


def whole_rollout(buffer: RolloutBuffer) -> RecentData | None:
    """All of a complete rollout buffer; ``None`` if it is empty, as REINFORCE's before an episode has ended."""
    if buffer.returns.size == 0:
        return None
    # REINFORCE's buffer has episodes one after the other, without an axis for environments
    return RecentData(buffer.observations, buffer.actions, buffer.returns.ndim, buffer.n_envs)


def recent_transitions(buffer: ReplayBuffer, n_steps: int, vec_normalize: VecNormalize | None) -> RecentData | None:
    """The latest transitions in a replay buffer; ``None`` if it is empty."""
    parts: Any = buffer.observations
    arrays = list(parts.values()) if isinstance(parts, dict) else [parts]
    bytes_a_step = sum(array.nbytes // len(array) for array in arrays)
    n_steps = min(n_steps, max(_MAX_TRANSITIONS // buffer.n_envs, 1), max(_MAX_BYTES // max(bytes_a_step, 1), 1))
    n_steps = min(n_steps, buffer.buffer_size if buffer.full else buffer.pos)
    if n_steps < 1:
        return None
    latest = np.arange(buffer.pos - n_steps, buffer.pos) % buffer.buffer_size
    observations = {key: part[latest] for key, part in parts.items()} if isinstance(parts, dict) else parts[latest]
    if vec_normalize is not None:
        observations = vec_normalize.normalize_obs(observations)
    return RecentData(observations, buffer.actions[latest], 2, buffer.n_envs)


def even_stride(size: int, limit: int, period: int) -> int:
    """
    A stride that picks about ``limit`` of ``size`` items, evenly over all kinds. Items that are ``period`` apart are of
    the same kind, such as one environment or one feature.
    """
    stride = max(-(-size // limit), 1)
    while math.gcd(stride, period) > 1:
        stride += 1
    return stride


def thinned(array: np.ndarray, period: int, limit: int = MAX_NUMBERS) -> np.ndarray:
    """At most ``limit`` of the numbers, flat and as float64. ``period`` is that of :func:`even_stride`."""
    flat = array.reshape(-1)
    return flat[:: even_stride(flat.size, limit, period)].astype(np.float64)
