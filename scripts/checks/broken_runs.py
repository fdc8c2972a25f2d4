"""Trainings that are broken on purpose, at least one for each alert; see alerts.py."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

__all__ = ["BROKEN", "BrokenRun"]


class ScaledObservations(gym.ObservationWrapper):
    """
    :param env: the environment
    :param factor: its observations are multiplied with this; the space knows it
    :param lies: whether the space says what it said before
    """

    def __init__(self, env: gym.Env, factor: float, lies: bool = False) -> None:
        super().__init__(env)
        assert isinstance(env.observation_space, spaces.Box)
        if not lies:
            shape = env.observation_space.shape
            self.observation_space = spaces.Box(-np.inf, np.inf, shape, np.float32)
        self._factor = factor

    def observation(self, observation: np.ndarray) -> np.ndarray:
        return (observation * self._factor).astype(np.float32)


class ScaledRewards(gym.RewardWrapper):
    """
    :param env: the environment
    :param factor: its rewards are multiplied with this
    """

    def __init__(self, env: gym.Env, factor: float) -> None:
        super().__init__(env)
        self._factor = factor

    def reward(self, reward: Any) -> float:
        return float(reward) * self._factor


class NanAfter(gym.ObservationWrapper):
    """
    :param env: the environment
    :param steps: after so many steps, its observations are NaN
    """

    def __init__(self, env: gym.Env, steps: int) -> None:
        super().__init__(env)
        self._left = steps

    def observation(self, observation: np.ndarray) -> np.ndarray:
        self._left -= 1
        return observation if self._left > 0 else np.full_like(observation, np.nan)


class SlowAfter(gym.Wrapper):
    """
    :param env: the environment
    :param steps: after so many steps, it becomes slow
    :param seconds: that each step takes from then on
    """

    def __init__(self, env: gym.Env, steps: int, seconds: float) -> None:
        super().__init__(env)
        self._left, self._seconds = steps, seconds

    def step(self, action: Any) -> Any:
        self._left -= 1
        if self._left < 0:
            time.sleep(self._seconds)
        return self.env.step(action)


class Distracted(gym.ObservationWrapper):
    """
    :param env: the environment
    :param n: so many random numbers, which mean nothing, are added to its observations
    """

    def __init__(self, env: gym.Env, n: int) -> None:
        super().__init__(env)
        assert isinstance(env.observation_space, spaces.Box)
        self._n = n
        self.observation_space = spaces.Box(-np.inf, np.inf, (env.observation_space.shape[0] + n,), np.float32)

    def observation(self, observation: np.ndarray) -> np.ndarray:
        return np.concatenate([observation, self.np_random.normal(size=self._n)]).astype(np.float32)


class Endless(gym.Env):
    """A point on a circle, moved left or right, for ever."""

    observation_space = spaces.Box(-1.0, 1.0, (2,), np.float32)
    action_space = spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        self._angle = float(self.np_random.uniform(0, 2 * np.pi))
        return self._look(), {}

    def step(self, action: Any) -> Any:
        self._angle += 0.1 if action else -0.1
        return self._look(), float(np.cos(self._angle)), False, False, {}

    def _look(self) -> np.ndarray:
        return np.array([np.cos(self._angle), np.sin(self._angle)], np.float32)


class Copies(gym.Env):
    """Plays back 50 fixed observations, whatever the actions: all copies are identical."""

    observation_space = spaces.Box(-1.0, 1.0, (2,), np.float32)
    action_space = spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        self._step = 0
        return self._look(), {}

    def step(self, action: Any) -> Any:
        self._step += 1
        return self._look(), float(action), self._step >= 50, False, {}

    def _look(self) -> np.ndarray:
        return np.array([np.cos(self._step), np.sin(self._step)], np.float32)


gym.register("Endless-v0", Endless)
gym.register("Copies-v0", Copies)


@dataclass(frozen=True)
class BrokenRun:
    """
    :param rule: id of the alert that should fire
    :param wrong: what is wrong
    :param algo: name of the algorithm in RL Zoo
    :param env_id: environment
    :param changes: what is different from the environment's section of the hyperparameter file
    :param n_timesteps: how long it trains
    :param counts_wrongly: whether a callback of the user logs a wrong number of episodes
    """

    rule: str
    wrong: str
    algo: str
    env_id: str
    changes: Mapping[str, Any] = field(default_factory=dict)
    n_timesteps: int = 50_000
    counts_wrongly: bool = False

    def __str__(self) -> str:
        return f"{self.algo} {self.env_id}, {self.wrong}"


def _wrapped(name: str, **kwargs: Any) -> dict[str, Any]:
    path = name if "." in name else f"{__name__}.{name}"
    return {"env_wrapper": [{path: kwargs}]}


CARTPOLE, PENDULUM, FROZEN_LAKE = "CartPole-v1", "Pendulum-v1", "FrozenLake-v1"
#: Where the file has no section for an environment of ours
_PLAIN = {"policy": "MlpPolicy", "n_envs": 8, "n_steps": 128, "n_timesteps": 1e5}

BROKEN = (
    BrokenRun(
        "action_saturation",
        "log_std_init 5",
        "ppo_ext",
        PENDULUM,
        {"policy_kwargs": {"log_std_init": 5}, "use_sde": False, "n_steps": 256},
        30_000,
    ),
    BrokenRun("clip_high", "clip_range 0.01", "ppo_ext", CARTPOLE, {"clip_range": 0.01}),
    BrokenRun("clip_low", "learning_rate 1e-6", "ppo_ext", CARTPOLE, {"learning_rate": 1e-6}),
    BrokenRun(
        "dead_relus",
        "relu, learning_rate 0.1",
        "ppo_ext",
        CARTPOLE,
        {"learning_rate": 0.1, "policy_kwargs": {"activation_fn": "relu"}},
    ),
    BrokenRun(
        "decreased",
        "a callback logs the episodes of a rollout as time/episodes",
        "ppo_ext",
        CARTPOLE,
        n_timesteps=20_000,
        counts_wrongly=True,
    ),
    BrokenRun(
        "entropy_collapse",
        "learning_rate 0.1, ent_coef 0",
        "ppo_ext",
        FROZEN_LAKE,
        {"learning_rate": 0.1, "ent_coef": 0.0},
    ),
    BrokenRun(
        "entropy_collapse",
        "learning_rate 0.3, ent_coef 0",
        "reinforce",
        FROZEN_LAKE,
        {"learning_rate": 0.3, "ent_coef": 0.0},
        100_000,
    ),
    BrokenRun("entropy_flat", "ent_coef 20", "ppo_ext", CARTPOLE, {"ent_coef": 20.0}),
    BrokenRun("entropy_flat", "learning_rate 1e-7", "reinforce", CARTPOLE, {"learning_rate": 1e-7}),
    BrokenRun("envs_identical", "an environment that plays back a recording", "ppo_ext", "Copies-v0", _PLAIN, 20_000),
    BrokenRun(
        "fps_drop",
        "the environment becomes slow",
        "ppo_ext",
        CARTPOLE,
        _wrapped("SlowAfter", steps=1500, seconds=0.005),
        20_000,
    ),
    BrokenRun(
        "grad_exploding",
        "observations times 10,000, relu",
        "ppo_ext",
        CARTPOLE,
        {**_wrapped("ScaledObservations", factor=10_000), "policy_kwargs": {"activation_fn": "relu"}},
    ),
    BrokenRun("grad_vanishing", "learning_rate 0.3", "ppo_ext", "Acrobot-v1", {"learning_rate": 0.3}, 100_000),
    BrokenRun(
        "importance_low",
        "n_steps 4, learning_rate 0.1",
        "reinforce",
        CARTPOLE,
        {"n_steps": 4, "learning_rate": 0.1},
        20_000,
    ),
    BrokenRun(
        "initial_entropy",
        "a linear policy on observations times 100",
        "ppo_ext",
        CARTPOLE,
        {**_wrapped("ScaledObservations", factor=100), "policy_kwargs": {"net_arch": [], "ortho_init": False}},
        5_000,
    ),
    BrokenRun(
        "initial_mean",
        "actions from 0 to 1",
        "ppo_ext",
        PENDULUM,
        _wrapped("gymnasium.wrappers.RescaleAction", min_action=0.0, max_action=1.0),
        10_000,
    ),
    BrokenRun(
        "initial_std",
        "actions from -100 to 100",
        "ppo_ext",
        PENDULUM,
        {**_wrapped("gymnasium.wrappers.RescaleAction", min_action=-100.0, max_action=100.0), "use_sde": False},
        10_000,
    ),
    BrokenRun("kl_high", "learning_rate 0.03", "ppo_ext", CARTPOLE, {"learning_rate": 0.03}),
    BrokenRun("kl_high", "learning_rate 0.1", "reinforce", CARTPOLE, {"learning_rate": 0.1}),
    BrokenRun("kl_low", "learning_rate 1e-6", "ppo_ext", CARTPOLE, {"learning_rate": 1e-6}),
    BrokenRun("kl_low", "learning_rate 1e-7", "reinforce", CARTPOLE, {"learning_rate": 1e-7}),
    BrokenRun("kl_stops", "target_kl 0.0001", "ppo_ext", CARTPOLE, {"target_kl": 1e-4}, 20_000),
    BrokenRun(
        "lr_zero", "a schedule that ends at 20 %", "ppo_ext", CARTPOLE, {"learning_rate": [[0, 1e-3], [0.2, 0], [1, 0]]}
    ),
    BrokenRun("nan", "learning_rate 1e20", "ppo_ext", CARTPOLE, {"learning_rate": 1e20}),
    BrokenRun("nan", "learning_rate 1e20", "reinforce", CARTPOLE, {"learning_rate": 1e20}),
    BrokenRun("nan", "the environment gives NaN", "a2c_ext", CARTPOLE, _wrapped("NanAfter", steps=2000)),
    BrokenRun("no_episode_end", "an environment without end", "ppo_ext", "Endless-v0", _PLAIN, 300_000),
    BrokenRun(
        "obs_unscaled",
        "observations times 1,000",
        "ppo_ext",
        CARTPOLE,
        _wrapped("ScaledObservations", factor=1000),
        20_000,
    ),
    BrokenRun(
        "out_of_bounds",
        "observations beyond their space",
        "ppo_ext",
        PENDULUM,
        _wrapped("ScaledObservations", factor=10, lies=True),
        10_000,
    ),
    BrokenRun(
        "q_exploding",
        "learning_rate 1, rewards times 100",
        "dqn",
        CARTPOLE,
        {
            "learning_rate": 1.0,
            "learning_starts": 500,
            "target_update_interval": 50,
            "env_wrapper": [{"ScaledRewards": {"factor": 100}}],
        },
        10_000,
    ),
    BrokenRun(
        "reward_drop",
        "the learning rate jumps to 0.1 in the middle",
        "ppo_ext",
        CARTPOLE,
        {"learning_rate": [[0, 1e-3], [0.5, 1e-3], [0.51, 0.1], [1, 0.1]]},
        80_000,
    ),
    BrokenRun(
        "reward_scale", "rewards times 1,000", "ppo_ext", CARTPOLE, _wrapped("ScaledRewards", factor=1000), 20_000
    ),
    BrokenRun("returns_equal", "gamma 0", "ppo_ext", CARTPOLE, {"gamma": 0.0}, 20_000),
    BrokenRun("reward_stall", "gamma 0", "ppo_ext", FROZEN_LAKE, {"gamma": 0.0}, 100_000),
    BrokenRun(
        "value_overfit",
        "50 random inputs, 100 epochs",
        "ppo_ext",
        CARTPOLE,
        {**_wrapped("Distracted", n=50), "n_epochs": 100, "policy_kwargs": {"net_arch": [256, 256]}},
        10_000,
    ),
    BrokenRun("value_useless", "vf_coef 0", "ppo_ext", "MountainCar-v0", {"vf_coef": 0.0}, 100_000),
)
