"""MinAtar's games."""

import sys
import warnings

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.wrappers import RecordVideo
from minatar import Environment
from stable_baselines3.common.env_checker import check_env as check_env_of_sb3
from stable_baselines3.common.env_util import make_vec_env

from sb3_ext import PPOExt
from sb3_ext.envs.minatar import GAMES, MinAtarEnv, register_minatar

IDS = register_minatar()


def test_every_game_has_an_id_with_all_and_one_with_the_useful_actions():
    assert len(IDS) == 2 * len(GAMES)
    assert gym.make("MinAtar/Breakout-v0").action_space.n == 6
    assert gym.make("MinAtar/SpaceInvaders-v1").action_space.n == 4


@pytest.mark.parametrize("observe", ["image", "vector"])
@pytest.mark.parametrize("env_id", IDS)
def test_it_keeps_to_the_rules_of_gymnasium_and_sb3(env_id, observe):
    env = gym.make(env_id, observe=observe, render_mode="rgb_array")
    check_env(env.unwrapped)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The minimal resolution")  # hence not NatureCNN
        check_env_of_sb3(env)


def test_the_observation_is_the_game_with_channels_first():
    env = MinAtarEnv("seaquest", observe="image")
    game = Environment("seaquest")
    game.seed(4)
    game.reset()
    image, _ = env.reset(seed=4)
    assert np.array_equal(image > 0, game.state().transpose(2, 0, 1)) and set(np.unique(image)) == {0, 255}
    vector, _ = MinAtarEnv("seaquest", observe="vector").reset(seed=4)
    assert np.array_equal(vector, image.reshape(-1) / 255)


@pytest.mark.parametrize("game", GAMES)
def test_a_seed_decides_the_episode_whatever_was_played_before(game):
    env = MinAtarEnv(game, sticky_action_prob=0.5)
    played = []
    for before in (0, 7):
        env.reset(seed=1)
        for _ in range(before):
            env.step(env.action_space.n - 1)
        env.reset(seed=2)
        played.append([env.step(action % env.action_space.n)[:2] for action in range(30)])
    for (a, reward_a), (b, reward_b) in zip(*played, strict=True):
        assert np.array_equal(a, b) and reward_a == reward_b


@pytest.mark.parametrize(("name", "value"), [("game", "breakuot"), ("observe", "imge")])
def test_a_wrong_name_is_told_with_the_nearest(name, value):
    with pytest.raises(ValueError, match="did you mean"):
        MinAtarEnv(**{"game": "breakout", name: value})


def test_a_video_is_recorded(tmp_path):
    env = RecordVideo(gym.make("MinAtar/Freeway-v1", render_mode="rgb_array"), str(tmp_path / "videos"), video_length=5)
    env.reset(seed=0)
    picture = env.unwrapped.render()
    assert picture.shape == (320, 320, 3) and picture.dtype == np.uint8 and len(np.unique(picture.reshape(-1, 3))) > 2
    for _ in range(6):
        env.step(1)
    env.close()
    (video,) = tmp_path.glob("videos/*.mp4")
    assert video.stat().st_size > 1000


@pytest.mark.parametrize(
    ("observe", "policy", "policy_kwargs"),
    [
        (
            "image",
            "CnnPolicy",
            {"features_extractor_class": "ImpalaCNN", "features_extractor_kwargs": {"channels": [8]}},
        ),
        ("image", "MlpPolicy", {}),
        ("vector", "MlpPolicy", {}),
    ],
)
def test_policies_learn_from_it(observe, policy, policy_kwargs):
    env = make_vec_env("MinAtar/Asterix-v1", 2, seed=0, env_kwargs={"observe": observe})
    PPOExt(policy, env, n_steps=16, batch_size=16, n_epochs=1, policy_kwargs=policy_kwargs, device="cpu").learn(64)


def test_without_its_package_there_are_no_ids_and_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "minatar", None)
    assert register_minatar() == []
    with pytest.raises(gym.error.DependencyNotInstalled, match="pip install minatar"):
        MinAtarEnv("breakout")
