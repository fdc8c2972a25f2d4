"""Parallel environments that are copies of one another are noticed."""

import warnings

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from recorded_training import record
from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env

import sb3_ext.envs  # noqa: F401  registers Bandit-v0
from sb3_ext import REINFORCE, A2CExt, MaskablePPOExt, PPOExt, RecurrentPPOExt
from sb3_ext.callbacks.metrics.callback import Metrics
from sb3_ext.common.env_checks import env_diversity, warn_if_copies


def test_copies_have_no_diversity_and_independent_ones_about_one():
    rng = np.random.default_rng(0)
    one = rng.normal(size=(50, 1, 3))
    assert env_diversity(np.repeat(one, 4, axis=1)) == 0.0
    assert env_diversity(rng.normal(size=(50, 4, 3))) == pytest.approx(1.0, abs=0.1)
    assert 0.2 < env_diversity(one + rng.normal(size=(50, 4, 3)) * 0.7) < 0.6


def written_out(observations):
    """The share of the variance between environments, from all numbers."""
    n_envs = observations.shape[1]
    between = observations.var(axis=1).mean(axis=0)
    total = between + observations.mean(axis=1).var(axis=0)
    return min(1.0, np.mean(between / total * n_envs / (n_envs - 1)))


def test_it_is_the_share_of_the_variance_between_environments():
    rng = np.random.default_rng(1)
    observations = rng.normal(size=(20, 3, 5)) * 0.5 + rng.normal(size=(20, 1, 5)) + rng.normal(size=5)
    assert env_diversity(observations) == pytest.approx(written_out(observations))


def test_what_varies_in_no_environment_does_not_count():
    observations = np.random.default_rng(1).normal(size=(20, 3, 2)) + np.linspace(0, 5, 20)[:, None, None]
    padded = np.concatenate([observations, np.full((20, 3, 4), 7.0)], axis=2)
    assert env_diversity(padded) == pytest.approx(env_diversity(observations))


def test_long_rollouts_of_large_observations_are_sampled_evenly():
    trend = np.linspace(0, 10, 500)[:, None, None, None]
    observations = np.random.default_rng(2).normal(size=(500, 3, 40, 30)) + trend
    expected = written_out(observations.reshape(500, 3, -1))
    assert 0.1 < expected < 0.3
    assert env_diversity(observations) == pytest.approx(expected, rel=0.1)


def test_one_environment_has_no_diversity():
    assert env_diversity(np.random.default_rng(0).normal(size=(50, 1, 3))) == 0.0


def test_what_never_changes_says_nothing_about_diversity():
    assert env_diversity(np.ones((10, 4, 3))) is None


@pytest.mark.parametrize("algorithm", [PPO, PPOExt])
def test_bandits_are_not_called_copies(algorithm):
    """Their observation is always the same, and their rewards are not."""
    env = make_vec_env("Bandit-v0", n_envs=4, seed=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = algorithm("MlpPolicy", env, n_steps=16, batch_size=16, n_epochs=1, seed=0, device="cpu")
        recorder = record(model)
        model.learn(128, callback=Metrics(max_cost=1))
    assert recorder.rows and not any("rollout/env_diversity" in row for row in recorder.rows)


class Counter(gym.Env):
    """Counts its steps up or down, as it is told; from the same number, or from a random one."""

    observation_space = spaces.Box(-np.inf, np.inf, (1,), np.float64)
    action_space = spaces.Discrete(2)

    def __init__(self, random_start=False, noise=0.0):
        self._random_start, self._noise = random_start, noise

    def action_masks(self):
        return [True, True]

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._value = self.np_random.normal() if self._random_start else 0.0
        return np.array([self._value]), {}

    def step(self, action):
        self._value += (1 if action else -1) + self._noise * self.np_random.normal()
        return np.array([self._value]), 0.0, False, False, {}


def warnings_of(algorithm=PPOExt, **kwargs):
    env = make_vec_env(lambda: Counter(**kwargs), n_envs=16, seed=0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        policy = "MlpLstmPolicy" if algorithm is RecurrentPPOExt else "MlpPolicy"
        settings = {} if algorithm in (A2CExt, REINFORCE) else {"batch_size": 256, "n_epochs": 1}
        model = algorithm(policy, env, n_steps=32, seed=0, device="cpu", **settings).learn(1024)
    assert 0.0 <= model.logger.name_to_value["rollout/env_diversity"] <= 1.0
    return [str(warning.message) for warning in caught if "deterministic" in str(warning.message)]


@pytest.mark.parametrize("algorithm", [A2CExt, MaskablePPOExt, PPOExt, REINFORCE, RecurrentPPOExt])
def test_deterministic_environments_with_one_start_are_told_once(algorithm):
    (said,) = warnings_of(algorithm)
    assert "The 16 environments start in the same state" in said


@pytest.mark.parametrize("kwargs", [{"random_start": True}, {"noise": 0.1}])
def test_environments_that_differ_are_not_told(kwargs):
    assert warnings_of(**kwargs) == []


@pytest.mark.parametrize("changing", [0, 1])
def test_environments_that_agree_in_one_number_only_are_no_copies(changing):
    observations = np.broadcast_to(np.arange(40.0)[:, None, None], (40, 4, 2)).copy()
    assert is_told(observations)
    observations[1:, :, changing] += np.arange(4)
    assert not is_told(observations)


def is_told(observations, actions=None, episode_starts=None):
    n_steps, n_envs = observations.shape[:2]
    actions = np.zeros((n_steps, n_envs, 1)) if actions is None else actions
    episode_starts = np.zeros((n_steps, n_envs)) if episode_starts is None else episode_starts
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warn_if_copies(observations, actions, episode_starts)
    return bool(caught)


@pytest.mark.parametrize(("n_steps", "told"), [(10, False), (11, True)])
def test_ten_equal_transitions_are_enough_and_fewer_are_not(n_steps, told):
    observations = np.repeat(np.arange(n_steps, dtype=float)[:, None, None], 2, axis=1)
    assert is_told(observations) == told
    assert is_told(np.repeat(observations, 3, axis=2)) == told


def test_one_environment_is_no_copy():
    assert not is_told(np.arange(50.0)[:, None, None])


@pytest.mark.parametrize("at", [0, 1, 5, 11])
def test_one_transition_that_differs_is_enough_not_to_be_told(at):
    observations = np.repeat(np.arange(12, dtype=float)[:, None, None], 2, axis=1)
    observations[at, 1] += 0.5
    assert not is_told(observations)


@pytest.mark.parametrize("cause", ["actions", "episode_starts"])
def test_what_comes_after_other_actions_or_another_end_does_not_count(cause):
    """The last transition of two that differ is that in which they did something else."""
    observations = np.repeat(np.arange(40, dtype=float)[:, None, None], 2, axis=1)
    observations[13:, 1] += 0.5
    actions, episode_starts = np.zeros((40, 2, 1)), np.zeros((40, 2))
    (actions if cause == "actions" else episode_starts)[12, 1] = 1
    assert is_told(observations, actions, episode_starts)
    observations[12, 1] += 0.5
    assert not is_told(observations, actions, episode_starts)


def test_only_the_first_steps_and_environments_are_compared():
    observations = np.repeat(np.arange(60, dtype=float)[:, None, None], 20, axis=1)
    observations[32:, 1] += 0.5
    observations[1:, 16:] += 0.5
    assert is_told(observations)
    observations[31, 15] += 0.5
    assert not is_told(observations)
