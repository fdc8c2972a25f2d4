"""Statistics of what was collected: observations, rewards, returns and values."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from gymnasium import spaces
from stable_baselines3.common.buffers import RolloutBuffer
from stable_baselines3.common.preprocessing import is_image_space

from sb3_ext.callbacks.metrics.recent_data import MAX_NUMBERS, Collected, thinned

__all__ = ["ObservationStatistics", "RecentRewards", "Summary", "summarize", "value_statistics"]

#: Rewards that are remembered, of all environments together
_MAX_REWARDS = 32_768


class Summary(NamedTuple):
    """What is said of many numbers."""

    mean: float
    std: float
    min: float
    max: float

    def named(self, name: str) -> dict[str, float]:
        """
        :param name: such as ``env/obs``
        :return: the four numbers as metrics
        """
        return {f"{name}_mean": self.mean, f"{name}_std": self.std, f"{name}_min": self.min, f"{name}_max": self.max}


def summarize(numbers: np.ndarray) -> Summary:
    """
    :param numbers: a row of at least one
    """
    # Several times faster on small arrays than the methods of the same names
    mean = np.add.reduce(numbers) / numbers.size
    deviations = numbers - mean
    std = math.sqrt(np.dot(deviations, deviations) / numbers.size)
    return Summary(float(mean), std, float(np.minimum.reduce(numbers)), float(np.maximum.reduce(numbers)))


class RecentRewards:
    """
    The rewards of the latest steps. A rollout buffer's own rewards would mislead: SB3 adds the value of the last state
    to that of a step which a time limit cuts.

    :param n_envs: number of environments
    """

    def __init__(self, n_envs: int) -> None:
        self._rewards = np.zeros((max(_MAX_REWARDS // n_envs, 1), n_envs), dtype=np.float32)
        self._n_steps = 0

    def add(self, rewards: np.ndarray) -> None:
        """
        :param rewards: one of each environment
        """
        self._rewards[self._n_steps % len(self._rewards)] = rewards
        self._n_steps += 1

    def take(self) -> np.ndarray:
        """:return: those since the last time, in a row; of very many, the latest"""
        rewards = self._rewards[: self._n_steps].reshape(-1).astype(np.float64)
        self._n_steps = 0
        return rewards


class _Part(NamedTuple):
    """
    :param key: of a Dict observation, or ``None``
    :param width: numbers in it
    :param scale: what the policy multiplies them with
    """

    key: str | None
    width: int
    scale: float


class ObservationStatistics:
    """
    Of a Discrete observation the policy sees a one-hot vector, whose mean tells nothing: such parts are left out, and
    if there are no others, only the histogram tells of them.

    :param space: of the observations
    :param normalize_images: whether the policy divides those of pictures by 255
    """

    def __init__(self, space: spaces.Space, normalize_images: bool) -> None:
        parts = dict(space.items()) if isinstance(space, spaces.Dict) else {None: space}
        numeric = {key: part for key, part in parts.items() if isinstance(part, (spaces.Box, spaces.MultiBinary))}
        self._are_quantities = bool(numeric)
        self._parts = [
            _Part(key, math.prod(part.shape or ()), 1 / 255 if normalize_images and is_image_space(part) else 1.0)
            for key, part in (numeric or parts).items()
        ]

    def sample(self, collected: Collected) -> np.ndarray:
        """
        :param collected: what was collected
        :return: the numbers in its observations, or some of them
        """
        samples = list(self._samples(collected))
        return samples[0] if len(samples) == 1 else np.concatenate(samples)

    def _samples(self, collected: Collected) -> Iterator[np.ndarray]:
        for key, width, scale in self._parts:
            part: Any = collected.observations
            part = part if key is None else part[key]
            numbers = thinned(part, width * collected.n_envs, MAX_NUMBERS // len(self._parts))
            if scale != 1.0:
                numbers *= scale
            yield numbers

    def describe(self, sample: np.ndarray) -> dict[str, float]:
        """
        :param sample: what :meth:`sample` gave
        """
        return summarize(sample).named("env/obs") if self._are_quantities else {}


def value_statistics(buffer: RolloutBuffer) -> dict[str, float]:
    """
    :param buffer: a rollout buffer that is complete, and not empty
    :return: of its returns, its values, and how far they are apart
    """
    returns, values = thinned(buffer.returns, buffer.n_envs), thinned(buffer.values, buffer.n_envs)
    # Advantages as all algorithms mean them, before they normalise: REINFORCE's buffer has none of its own yet
    advantage, value = summarize(returns - values), summarize(values)
    return {
        **advantage.named("rollout/advantage"),
        **summarize(returns).named("rollout/return"),
        "rollout/value_mean": value.mean,
        "rollout/value_std": value.std,
        "rollout/value_error": math.hypot(advantage.mean, advantage.std),
    }
