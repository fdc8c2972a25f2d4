"""What an algorithm collected lately, from the buffer of whichever kind it has."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from stable_baselines3.common.buffers import ReplayBuffer, RolloutBuffer
from stable_baselines3.common.vec_env import VecNormalize

__all__ = ["MAX_NUMBERS", "Collected", "Observations", "even_stride", "recent_transitions", "thinned", "whole_rollout"]

Observations = np.ndarray | dict[str, np.ndarray]

#: Numbers that a statistic is computed from, at most: more would say the same and cost time
MAX_NUMBERS = 10_000
#: What is read of a replay buffer: so many transitions and bytes of observations, at most
_MAX_TRANSITIONS, _MAX_BYTES = 1000, 2_000_000


@dataclass(frozen=True)
class Collected:
    """
    :param observations: as the algorithm sees them; by key, where they are of several parts
    :param actions: as the buffer has them
    :param n_axes: axes of these arrays before those of one observation: steps and environments, or only samples
    :param n_envs: how many environments they come from
    """

    observations: Observations
    actions: np.ndarray
    n_axes: int
    n_envs: int

    @property
    def size(self) -> int:
        """How many steps of one environment these are."""
        return math.prod(self.actions.shape[: self.n_axes])

    def pick(self, indices: np.ndarray) -> Observations:
        """
        :param indices: of steps
        :return: the observations of these
        """
        if isinstance(self.observations, dict):
            return {key: self._pick(part, indices) for key, part in self.observations.items()}
        return self._pick(self.observations, indices)

    def _pick(self, part: np.ndarray, indices: np.ndarray) -> np.ndarray:
        return part.reshape(self.size, *part.shape[self.n_axes :])[indices]


def whole_rollout(buffer: RolloutBuffer) -> Collected | None:
    """
    :param buffer: a rollout buffer that is complete
    :return: all of it; ``None`` when it holds nothing, as REINFORCE's where no episode has ended
    """
    if buffer.returns.size == 0:
        return None
    # REINFORCE's buffer holds episodes, one after the other
    return Collected(buffer.observations, buffer.actions, buffer.returns.ndim, buffer.n_envs)


def recent_transitions(buffer: ReplayBuffer, n_steps: int, vec_normalize: VecNormalize | None) -> Collected | None:
    """
    :param buffer: a replay buffer
    :param n_steps: how many steps of all environments, at most
    :param vec_normalize: what normalises the observations, which are kept as they were
    :return: the latest; ``None`` when there are none
    """
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
    return Collected(observations, buffer.actions[latest], 2, buffer.n_envs)


def even_stride(size: int, limit: int, period: int) -> int:
    """
    :param size: how many there are
    :param limit: about how many to take
    :param period: after so many they are of the same kind: of one environment, or of one feature
    :return: every how many-th to take, so that all kinds have their share
    """
    stride = max(-(-size // limit), 1)
    while math.gcd(stride, period) > 1:
        stride += 1
    return stride


def thinned(array: np.ndarray, period: int, limit: int = MAX_NUMBERS) -> np.ndarray:
    """
    :param array: numbers
    :param period: as for :func:`even_stride`
    :param limit: how many are left, at most
    :return: a row of them, as copies of double precision
    """
    flat = array.reshape(-1)
    return flat[:: even_stride(flat.size, limit, period)].astype(np.float64)
