"""``n_envs: auto`` and ``n_steps: auto``."""

import gymnasium as gym
import pytest
import rl_zoo3.train  # noqa: F401  registers environments and our algorithms

from sb3_ext.common.usage_error import UsageError
from sb3_ext.tune import auto
from sb3_ext.tune.auto import resolve_auto

SECTION = {"n_envs": 2, "n_timesteps": 1000, "policy": "MlpPolicy", "n_steps": 64, "batch_size": 128, "n_epochs": 1}


class RareReward(gym.Env):
    """A reward each so many steps, and long episodes."""

    observation_space = gym.spaces.Box(-1.0, 1.0, (2,))
    action_space = gym.spaces.Discrete(2)

    def __init__(self, every=60, length=600, usual=0.0):
        self.every, self.length, self.usual, self.step_ = every, length, usual, 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.step_ = 0
        return self.observation_space.sample(), {}

    def step(self, action):
        self.step_ += 1
        reward = 1.0 + self.step_ if self.step_ % self.every == 0 else self.usual
        return self.observation_space.sample(), reward, False, self.step_ >= self.length, {}


@pytest.fixture(autouse=True, scope="module")
def rare_reward():
    gym.register("RareReward-v0", RareReward)
    yield
    del gym.registry["RareReward-v0"]


@pytest.mark.parametrize(
    ("env_kwargs", "n_steps"),
    [
        ({"every": 60}, 64),
        ({"every": 60, "usual": -1.0}, 64),
        ({"every": 3}, 16),
        # Only the ends of episodes
        ({"every": 9999}, 512),
        # A reward of its own at each step: the length of an episode
        ({"every": 1}, 512),
    ],
)
def test_n_steps_is_the_mean_number_of_steps_between_rewards(env_kwargs, n_steps):
    section = {**SECTION, "n_steps": "auto", "env_kwargs": env_kwargs}
    resolved, said = resolve_auto(section, "ppo_ext", "RareReward-v0", 0)
    assert resolved["n_steps"] == n_steps
    assert said[0].startswith(f"n_steps: auto is {n_steps}: ")


def test_a_batch_fits_the_measured_rollout():
    section = {**SECTION, "n_steps": "auto", "env_kwargs": {"every": 3}}
    assert resolve_auto(section, "ppo_ext", "RareReward-v0", 0)[0]["batch_size"] == 32


def test_n_envs_is_measured_with_the_same_rollout(monkeypatch):
    monkeypatch.setattr(auto, "_N_ENVS", (1, 4))
    monkeypatch.setattr(auto, "_SECONDS_EACH", 0.1)
    resolved, said = resolve_auto({**SECTION, "n_envs": "auto"}, "ppo_ext", "RareReward-v0", 0, SECTION)
    assert resolved["n_envs"] in (1, 2, 4) and resolved["n_envs"] * resolved["n_steps"] == 128
    assert "n_envs: auto is" in said[0] and "steps per second with 1: " in said[0] and "4: " in said[0]


def test_the_sections_own_n_envs_stays_when_there_is_no_time_for_others(monkeypatch):
    monkeypatch.setattr(auto, "_SECONDS", 0.0)
    monkeypatch.setattr(auto, "_SECONDS_EACH", 0.1)
    resolved, _ = resolve_auto({**SECTION, "n_envs": "auto"}, "ppo_ext", "RareReward-v0", 0, SECTION)
    assert resolved["n_envs"] == 2 and resolved["n_steps"] == 64


def test_a_section_without_auto_is_not_measured():
    assert resolve_auto(SECTION, "ppo_ext", "NoSuchEnv-v0", 0) == (SECTION, [])


def test_an_algorithm_without_rollouts_is_refused():
    with pytest.raises(UsageError, match="n_envs: auto is for algorithms with rollouts, and dqn has none"):
        resolve_auto({**SECTION, "n_envs": "auto"}, "dqn", "CartPole-v1", 0)
