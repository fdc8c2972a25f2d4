"""Short trainings with metrics, on small random environments, whose rows are kept."""

from __future__ import annotations

from types import SimpleNamespace

import gymnasium as gym
import numpy as np
from conftest import ACTION_SPACES, OBSERVATION_SPACES, POLICIES, RandomEnv
from gymnasium import spaces
from sb3_contrib import MaskablePPO, RecurrentPPO
from stable_baselines3 import DQN, PPO, SAC
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.logger import KVWriter, Logger

from sb3_ext.callbacks.metrics.callback import Metrics

TIME = {f"time/{name}" for name in ("vec_steps", "n_updates", "progress", "eta", "episodes", "fps_now")}
FOUR = ("mean", "std", "min", "max")
ENV = {f"env/{what}_{name}" for what in ("obs", "reward") for name in FOUR}
ACTIONS = {f"policy/action_{name}" for name in FOUR}
VALUES = {f"rollout/{what}_{name}" for what in ("advantage", "return") for name in FOUR}
VALUES |= {"rollout/value_mean", "rollout/value_std", "rollout/value_error", "rollout/episodes", "policy/entropy"}
SCALED = {f"train/scaled_{part}_loss" for part in ("policy", "value", "entropy")}
CLIPPED = {"train/grad_norm_clipped", "train/grad_norm_clipped_actor", "train/grad_norm_clipped_critic"}


class Recorder(KVWriter):
    """Keeps what a logger writes."""

    def __init__(self):
        self.rows, self.steps, self.excluded = [], [], {}

    def write(self, key_values, key_excluded, step=0):
        self.rows.append(dict(key_values))
        self.steps.append(step)
        self.excluded.update(key_excluded)

    def close(self):
        pass


class KeepBuffer(BaseCallback):
    """Copies of all rollouts, as they were before the update."""

    def __init__(self):
        super().__init__()
        self.rollouts = []

    def _on_step(self):
        return True

    def _on_rollout_end(self):
        buffer = self.model.rollout_buffer
        names = ("observations", "actions", "rewards", "returns", "values", "log_probs")
        self.rollouts.append(SimpleNamespace(**{name: getattr(buffer, name).copy() for name in names}))


def make_model(algorithm, action="Discrete", observation="Box", env=None, **kwargs):
    n_envs = 1 if algorithm in (DQN, SAC) else 2
    env = env or make_vec_env(lambda: RandomEnv(OBSERVATION_SPACES[observation], ACTION_SPACES[action]), n_envs, seed=0)
    policy = POLICIES[observation] if algorithm is not RecurrentPPO else "MlpLstmPolicy"
    if issubclass(algorithm, (PPO, MaskablePPO, RecurrentPPO)):
        kwargs = {"n_steps": 16, "batch_size": 16, "n_epochs": 2, **kwargs}
    elif algorithm in (DQN, SAC):
        kwargs = {"buffer_size": 1000, "learning_starts": 10, "policy_kwargs": {"net_arch": [16]}, **kwargs}
    else:
        kwargs = {"n_steps": 16, **kwargs}
    return algorithm(policy, env, seed=0, device="cpu", **kwargs)


def record(model):
    recorder = Recorder()
    model.set_logger(Logger(None, [recorder]))
    return recorder


def rows_of_training(model, steps=96, callbacks=(), log_interval=1, **kwargs):
    recorder = record(model)
    metrics = Metrics(**{"max_cost": 1, "histogram_seconds": 0, **kwargs})
    model.learn(steps, callback=[metrics, *callbacks], log_interval=log_interval)
    model.get_env().close()
    return recorder


class Steady(gym.Env):
    """A reward of 1 at each of ten steps, then a time limit."""

    observation_space = spaces.Box(-1.0, 1.0, (2,), np.float32)
    action_space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._step = 0
        return self.observation_space.sample(), {}

    def step(self, action):
        self._step += 1
        return self.observation_space.sample(), 1.0, False, self._step == 10, {}
