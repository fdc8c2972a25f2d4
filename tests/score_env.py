"""An environment whose score reveals the weights of the agent, and an algorithm whose weights reveal its step."""

from __future__ import annotations

import os
import time

import gymnasium as gym
import numpy as np
import torch as th
from gymnasium import spaces
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import VecEnv

__all__ = ["ScoreEnv", "Stamp", "StampedPPO", "make_envs", "make_model"]

#: What happens in another process than this one
FAILURES = ("raise", "exit")


class ScoreEnv(gym.Env):
    """
    The reward of a step is the action, or how far it is from the goal.

    :param goal: the action that is wanted; ``None`` for the largest
    :param length: steps of an episode, of which only the last gives a reward
    :param delay: seconds that a step takes
    :param failure: how it fails in another process than ``home``
    :param home: number of the process that it works in
    """

    def __init__(
        self,
        goal: float | None = None,
        length: int = 1,
        delay: float = 0.0,
        failure: str | None = None,
        home: int | None = None,
    ) -> None:
        self.observation_space = spaces.Box(0.0, 1.0, (1,), np.float32)
        self.action_space = spaces.Box(-1e6, 1e6, (1,), np.float32)
        self._goal = goal
        self._length = length
        self._delay = delay
        self._failure = failure if home != os.getpid() else None

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._step = 0
        return np.ones(1, np.float32), {}

    def step(self, action):
        time.sleep(self._delay)
        if self._failure == "raise":
            raise RuntimeError("this environment is broken")
        if self._failure == "exit":
            os._exit(3)
        self._step += 1
        value = float(action[0])
        score = value if self._goal is None else -abs(value - self._goal)
        over = self._step >= self._length
        return np.ones(1, np.float32), score if over else 0.0, over, False, {}


class StampedPPO(PPO):
    """Doesn't learn, and remembers when it would have."""

    def train(self):
        self.trained_at = [*getattr(self, "trained_at", []), self.num_timesteps]


class Stamp(BaseCallback):
    """Writes the present step into the weights: the agent's most likely action is that number."""

    def _on_step(self):
        with th.no_grad():
            self.model.policy.action_net.weight.zero_()
            self.model.policy.action_net.bias.fill_(self.num_timesteps)
        return True


def make_envs(n_envs: int = 1, **kwargs) -> VecEnv:
    """As an evaluation in another process makes them, too."""
    return make_vec_env(ScoreEnv, n_envs, env_kwargs=kwargs)


def make_model(n_envs: int = 2, **kwargs) -> StampedPPO:
    """Rollouts of 64 steps of each environment."""
    return StampedPPO("MlpPolicy", make_envs(n_envs, **kwargs), n_steps=64, batch_size=32, seed=0, device="cpu")
