"""The Atari ids: how many frames an agent's step takes, and the warning where it would be too many."""

import warnings

import gymnasium as gym
import pytest
from stable_baselines3.common.atari_wrappers import AtariWrapper
from stable_baselines3.common.env_util import make_atari_env
from stable_baselines3.common.vec_env import DummyVecEnv

import sb3_ext.envs  # noqa: F401  registers the ids
from sb3_ext import REINFORCE, PPOExt


def frames_a_step(env_id):
    env = AtariWrapper(gym.make(env_id), noop_max=0)
    env.reset(seed=0)
    before = env.unwrapped.ale.getFrameNumber()
    env.step(env.action_space.sample())
    return env.unwrapped.ale.getFrameNumber() - before


def test_the_wrappers_frame_skip_holds():
    assert frames_a_step("Pong-v5") == 4
    assert frames_a_step("ALE/Pong-v5") == 16


def test_every_game_of_ale_py_has_an_id():
    games = {spec.name for spec in gym.registry.values() if spec.namespace == "ALE"}
    assert len(games) > 100
    assert all(gym.spec(f"{game}-v5").kwargs["frameskip"] == 1 for game in games)


def test_actions_are_sticky():
    assert gym.make("Breakout-v5").unwrapped.ale.getFloat("repeat_action_probability") == 0.25


@pytest.mark.parametrize("algorithm", [PPOExt, REINFORCE])
def test_a_double_frame_skip_gets_a_warning_that_says_how_to_fix_it(algorithm):
    with pytest.warns(UserWarning, match="Use --env Pong-v5"):
        algorithm("CnnPolicy", make_atari_env("ALE/Pong-v5"), n_steps=8)


def test_there_is_no_warning_where_there_is_no_double_skip():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        PPOExt("CnnPolicy", make_atari_env("Pong-v5"), n_steps=8, batch_size=8)
        PPOExt("CnnPolicy", make_atari_env("ALE/Pong-v5", env_kwargs={"frameskip": 1}), n_steps=8, batch_size=8)
        PPOExt("MlpPolicy", DummyVecEnv([lambda: gym.make("CartPole-v1")]), n_steps=8, batch_size=8)
