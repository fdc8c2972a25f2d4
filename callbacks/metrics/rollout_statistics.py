"""Statistics of collected observations, rewards, returns and values."""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from gymnasium import spaces
from stable_baselines3.common.buffers import RolloutBuffer
from stable_baselines3.common.preprocessing import is_image_space

from sb3_ext.callbacks.metrics.recent_data import MAX_NUMBERS, RecentData, thinned
from sb3_ext.common.stateful import Stateful

__all__ = ["ObservationStatistics", "RecentRewards", "Summary", "summarize", "value_statistics"]

#: Maximum number of rewards to remember, over all environments
_MAX_REWARDS = 32_768


class Summary(NamedTuple):
    mean: float
    std: float
    min: float
    max: float

    def named(self, name: str) -> dict[str, float]:
        """As metrics, with a prefix such as ``env/obs``."""
        return {f"{name}_mean": self.mean, f"{name}_std": self.std, f"{name}_min": self.min, f"{name}_max": self.max}


def summarize(numbers: np.ndarray) -> Summary:
    # Several times faster on small arrays than NumPy's mean, std, min and max
    mean = np.add.reduce(numbers) / numbers.size
    deviations = numbers - mean
    std = math.sqrt(np.dot(deviations, deviations) / numbers.size)
    return Summary(float(mean), std, float(np.minimum.reduce(numbers)), float(np.maximum.reduce(numbers)))


class RecentRewards(Stateful):
    """
    The rewards of the latest steps. Those in a rollout buffer would mislead: at a time limit, SB3 adds the value of the
    last state to the reward.
    """

    def __init__(self, n_envs: int) -> None:
        self._rewards = np.zeros((max(_MAX_REWARDS // n_envs, 1), n_envs), dtype=np.float32)
        self._n_steps = 0

    def add(self, rewards: np.ndarray) -> None:
        self._rewards[self._n_steps % len(self._rewards)] = rewards
        self._n_steps += 1

    def take(self) -> np.ndarray:
        """The rewards since the last call; only the latest if there are very many."""
        rewards = self._rewards[: self._n_steps].reshape(-1).astype(np.float64)
        self._n_steps = 0
        return rewards

    def state(self) -> dict[str, Any]:
        return {"n_steps": self._n_steps, "rewards": self._rewards[: self._n_steps].copy()}

    def restore(self, state: Mapping[str, Any]) -> None:
        rewards = state["rewards"]
        if rewards.shape[1:] == self._rewards.shape[1:]:  # the number of environments may have changed
            self._n_steps = state["n_steps"]
            self._rewards[: len(rewards)] = rewards


class _Part(NamedTuple):
    key: str | None
    width: int
    scale: float


class ObservationStatistics:
    """
    Statistics of the numbers in observations.

    The policy sees Discrete observations as one-hot vectors, whose mean says nothing, so they are left out. If there
    are no others, there is only the histogram.
    """

    def __init__(self, space: spaces.Space, normalize_images: bool) -> None:
        parts = dict(space.items()) if isinstance(space, spaces.Dict) else {None: space}
        numeric = {key: part for key, part in parts.items() if isinstance(part, (spaces.Box, spaces.MultiBinary))}
        self._are_quantities = bool(numeric)
        self._parts = [
            _Part(key, math.prod(part.shape or ()), 1 / 255 if normalize_images and is_image_space(part) else 1.0)
            for key, part in (numeric or parts).items()
        ]

    def sample(self, data: RecentData) -> np.ndarray:
        """Some of the numbers in the observations."""
        samples = []
        observations: Any = data.observations
        for key, width, scale in self._parts:
            part = observations if key is None else observations[key]
            numbers = thinned(part, width * data.n_envs, MAX_NUMBERS // len(self._parts))
            samples.append(numbers if scale == 1.0 else numbers * scale)
        return samples[0] if len(samples) == 1 else np.concatenate(samples)

    def describe(self, sample: np.ndarray) -> dict[str, float]:
        return summarize(sample).named("env/obs") if self._are_quantities else {}


def value_statistics(buffer: RolloutBuffer) -> dict[str, float]:
    """Statistics of the returns and values in a complete rollout buffer, and of their difference."""
    returns, values = thinned(buffer.returns, buffer.n_envs), thinned(buffer.values, buffer.n_envs)
    # Computed here, because REINFORCE's buffer has no advantages yet
    advantage, value = summarize(returns - values), summarize(values)
    return {
        **advantage.named("rollout/advantage"),
        **summarize(returns).named("rollout/return"),
        "rollout/value_mean": value.mean,
        "rollout/value_std": value.std,
        "rollout/value_error": math.hypot(advantage.mean, advantage.std),
    }
