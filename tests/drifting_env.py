"""An environment whose observations grow while an agent is trained on it."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize


class DriftingEnv(gym.Env):
    """
    Nothing is random. The score depends smoothly on the actions: an agent that sees its observations at another scale
    has another one.

    :param drift: how much larger observations get with each step
    """

    def __init__(self, drift: float = 0.0) -> None:
        self.observation_space = spaces.Box(-np.inf, np.inf, (2,), np.float32)
        self.action_space = spaces.Box(-1.0, 1.0, (1,), np.float32)
        self._drift = drift
        self._scale = 1.0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._time = 0
        return self._observe(), {}

    def step(self, action):
        reward = -((float(action[0]) - np.sin(self._time)) ** 2)
        self._time += 1
        self._scale += self._drift
        return self._observe(), reward, False, self._time == 10, {}

    def _observe(self):
        return (self._scale * np.array([np.sin(self._time), np.cos(self._time)])).astype(np.float32)


def make_vec_env(drift: float = 0.0) -> DummyVecEnv:
    """One environment, not normalised."""
    return DummyVecEnv([lambda: Monitor(DriftingEnv(drift))])


def make_normalized(drift: float = 0.0, **kwargs) -> VecNormalize:
    """One environment, normalised."""
    return VecNormalize(make_vec_env(drift), **kwargs)
