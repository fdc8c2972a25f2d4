"""An environment whose pictures tell the step, and agents that play it, for films."""

from types import SimpleNamespace

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from stable_baselines3 import PPO
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv

#: Of the pictures, which are red at first and lose it step by step
HEIGHT, WIDTH = 30, 40


class FadingEnv(gym.Env):
    """
    A reward of 2 at each step; the picture of step ``n`` has ``250 - 25 n`` of red.

    :param length: steps of an episode
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 8}  # noqa: RUF012

    def __init__(self, length=5, render_mode="rgb_array"):
        self.observation_space = spaces.Box(0.0, 100.0, (1,), np.float32)
        self.action_space = spaces.Discrete(2)
        self.render_mode = render_mode
        self.closed = False
        self._length = length
        self._time = 0

    def get_action_meanings(self):
        return ["STAY", "GO"]

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._time = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self._time += 1
        return np.full(1, self._time, np.float32), 2.0, self._time >= self._length, False, {}

    def render(self):
        picture = np.zeros((HEIGHT, WIDTH, 3), np.uint8)
        picture[..., 0] = max(250 - 25 * self._time, 0)
        return picture

    def close(self):
        self.closed = True


def make_agent(length=5, wrap=lambda env: env, **kwargs):
    """As a run is loaded: model, environment, and whether actions are deterministic."""
    env = DummyVecEnv([lambda: wrap(Monitor(FadingEnv(length, **kwargs)))])
    settings = {"n_steps": 8, "batch_size": 8, "policy_kwargs": {"net_arch": [4]}, "seed": 0, "device": "cpu"}
    return SimpleNamespace(model=PPO("MlpPolicy", env, **settings), env=env, deterministic=True)
