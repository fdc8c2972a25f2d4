"""Parallel environments that are copies of one another are noticed."""

import warnings

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from stable_baselines3.common.env_util import make_vec_env

from sb3_ext import PPOExt
from sb3_ext.common.env_diversity import env_diversity


def test_copies_have_no_diversity_and_independent_ones_about_one():
    rng = np.random.default_rng(0)
    one = rng.normal(size=(50, 1, 3))
    assert env_diversity(np.repeat(one, 4, axis=1)) == 0.0
    assert env_diversity(rng.normal(size=(50, 4, 3))) == pytest.approx(1.0, abs=0.1)
    assert 0.2 < env_diversity(one + rng.normal(size=(50, 4, 3)) * 0.7) < 0.6


def test_what_never_changes_has_no_diversity():
    assert env_diversity(np.ones((10, 4, 3))) == 0.0


class Counter(gym.Env):
    """Counts its steps up or down, as it is told; from the same number, or from a random one."""

    observation_space = spaces.Box(-np.inf, np.inf, (1,), np.float64)
    action_space = spaces.Discrete(2)

    def __init__(self, random_start=False, noise=0.0):
        self._random_start, self._noise = random_start, noise

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._value = self.np_random.normal() if self._random_start else 0.0
        return np.array([self._value]), {}

    def step(self, action):
        self._value += (1 if action else -1) + self._noise * self.np_random.normal()
        return np.array([self._value]), 0.0, False, False, {}


def warnings_of(**kwargs):
    env = make_vec_env(lambda: Counter(**kwargs), n_envs=16, seed=0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = PPOExt("MlpPolicy", env, n_steps=32, batch_size=64, n_epochs=1, seed=0, device="cpu").learn(1024)
    assert 0.0 <= model.logger.name_to_value["rollout/env_diversity"] <= 1.0
    return [str(warning.message) for warning in caught if "deterministic" in str(warning.message)]


def test_deterministic_environments_with_one_start_are_told_once():
    (said,) = warnings_of()
    assert "The 16 environments start in the same state" in said


@pytest.mark.parametrize("kwargs", [{"random_start": True}, {"noise": 0.1}])
def test_environments_that_differ_are_not_told(kwargs):
    assert warnings_of(**kwargs) == []
