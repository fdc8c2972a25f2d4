"""``Bandit-v0``: rewards and regret, seeds, pictures and videos, and that an algorithm solves it."""

import pickle
import warnings
from itertools import pairwise

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.wrappers import RecordVideo
from stable_baselines3.common.env_checker import check_env as check_env_of_sb3
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv, VecVideoRecorder

import sb3_ext.envs  # noqa: F401  registers the id
from sb3_ext import REINFORCE, A2CExt, PPOExt
from sb3_ext.vec_env.multicore import MulticoreVecEnv

CONFIGS = {
    "default": {},
    "last": {"observe": "last"},
    "drawn once": {"n_arms": 3, "draw": "once", "draw_seed": 7},
    "drawn at reset": {"n_arms": 4, "draw": "reset", "observe": "last", "length": 5},
    "given": {"means": [1, 2.5, -1], "stds": [0, 0.1, "1e-1"], "length": 3},
}


def play(env, arms, seed=None):
    observations = [env.reset(seed=seed)[0]]
    steps = [env.step(arm) for arm in arms]
    return observations + [step[0] for step in steps], [step[1] for step in steps], [step[-1] for step in steps]


@pytest.mark.parametrize("config", CONFIGS.values(), ids=list(CONFIGS))
def test_it_keeps_to_the_rules_of_gymnasium_and_sb3(config):
    env = gym.make("Bandit-v0", render_mode="rgb_array", **config)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*infinity.*")  # a reward has no bounds
        check_env(env.unwrapped)
        check_env_of_sb3(env)


@pytest.mark.parametrize("config", CONFIGS.values(), ids=list(CONFIGS))
def test_a_seed_decides_the_episode(config):
    arms = [0, 1, 2]
    first, again, other = (play(gym.make("Bandit-v0", **config), arms, seed) for seed in (5, 5, 6))
    assert np.array_equal(first[0], again[0])
    assert first[1:] == again[1:]
    assert first[1] != other[1]


def test_means_drawn_at_reset_change_with_each_episode_and_come_back_with_the_seed():
    env = gym.make("Bandit-v0", draw="reset").unwrapped
    drawn = []
    for seed in (1, None, 1):
        env.reset(seed=seed)
        drawn.append(env.means)
    assert np.array_equal(drawn[0], drawn[2])
    assert not np.isclose(drawn[0], drawn[1]).any()


def test_means_drawn_once_are_the_same_in_all_copies_whatever_their_seed():
    envs = [gym.make("Bandit-v0", draw="once", draw_seed=seed).unwrapped for seed in (3, 3, 4)]
    means = [env.means.copy() for env in envs]
    envs[0].reset(seed=11)
    assert np.array_equal(means[0], means[1]) and np.array_equal(means[0], envs[0].means)
    assert not np.isclose(means[0], means[2]).any()


def test_rewards_have_the_mean_and_the_deviation_of_the_arm():
    env = gym.make("Bandit-v0", means=[0, 3], stds=[1, 0.2], length=4000)
    for arm, (mean, std) in enumerate([(0, 1), (3, 0.2)]):
        _, rewards, infos = play(env, [arm] * 4000, seed=arm)
        assert np.mean(rewards) == pytest.approx(mean, abs=4 * std / 4000**0.5)
        assert np.std(rewards) == pytest.approx(std, rel=0.05)
        assert infos[0]["mean"] == mean and infos[0]["regret"] == 3 - mean


def test_the_end_of_an_episode_reports_regret_and_the_share_of_the_best_arm():
    infos = play(gym.make("Bandit-v0", means=[0, 1, 3], length=4), [2, 0, 1, 2], seed=0)[2]
    assert infos[-1]["ext_episode"] == {"env/regret": 5.0, "env/best_arm_share": 0.5}
    assert all("ext_episode" not in info for info in infos[:-1])


@pytest.mark.parametrize("length", [3, 250])
def test_episodes_are_truncated_at_the_length_that_was_asked_for(length):
    env = gym.make("Bandit-v0", length=length)
    env.reset(seed=0)
    ends = [env.step(0)[2:4] for _ in range(length)]
    assert ends == [(False, False)] * (length - 1) + [(False, True)]


def test_the_last_arm_and_its_reward_are_observed():
    env = gym.make("Bandit-v0", means=[1, 2, 3], stds=0, observe="last")
    assert np.array_equal(play(env, [1, 2], seed=0)[0], [[0, 0, 0, 0], [0, 1, 0, 2], [0, 0, 1, 3]])


def test_the_threshold_is_between_the_best_and_the_second_best_arm():
    env = gym.make("Bandit-v0", stds=0)
    best, second = (sum(play(env, [arm] * 100, seed=0)[1]) for arm in (9, 8))
    assert second < gym.spec("Bandit-v0").reward_threshold < best


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"n_arms": 1}, "n_arms=1 must be a whole number, at least 2"),
        ({"n_arms": 2.5}, "n_arms=2.5 must be a whole number"),
        ({"length": 0}, "length=0 must be a whole number, at least 1"),
        ({"n_arms": 3, "means": [1, 2]}, "has 2 numbers for 3 arms"),
        ({"means": [1, "two"]}, "must be a number"),
        ({"means": [1, float("nan")]}, "must be finite"),
        ({"stds": -1}, "must not be negative"),
        ({"stds": [1, 1]}, "has 2 numbers for 10 arms"),
        ({"draw": "resett"}, "did you mean 'reset'"),
        ({"draw": "once", "means": [0, 1]}, "one or the other"),
        ({"observe": "lst"}, "did you mean 'last'"),
    ],
)
def test_a_wrong_parameter_is_told(config, said):
    with pytest.raises(ValueError, match=said):
        gym.make("Bandit-v0", **config)


def test_an_arm_that_is_not_there_is_told():
    env = gym.make("Bandit-v0").unwrapped
    env.reset(seed=0)
    with pytest.raises(ValueError, match="from 0 to 9"):
        env.step(10)


@pytest.mark.parametrize("vec_env", [DummyVecEnv, SubprocVecEnv, MulticoreVecEnv])
def test_copies_in_a_vectorised_environment_have_rewards_of_their_own(vec_env, closing):
    # The module is for processes that have not imported it
    env = closing(make_vec_env("sb3_ext.envs:Bandit-v0", 2, seed=0, vec_env_cls=vec_env))
    env.reset()
    _, rewards, _, infos = env.step(np.array([9, 9]))
    assert rewards[0] != rewards[1]
    assert [info["mean"] for info in infos] == [1.0, 1.0]


def test_the_picture_shows_the_pulls_and_the_arm_just_pulled():
    env = gym.make("Bandit-v0", n_arms=4, render_mode="rgb_array")
    env.reset(seed=0)
    pictures = [env.render()]
    for arm in (1, 2):
        env.step(arm)
        pictures.append(env.render())
    assert all(picture.shape == (360, 640, 3) and picture.dtype == np.uint8 for picture in pictures)
    # Arm 1 is in the second quarter: framed by the first step, and no more by the second
    quarters = [np.array_split(picture[:, 56:628], 4, axis=1) for picture in pictures]
    changed = [[not np.array_equal(a, b) for a, b in zip(*pair, strict=True)] for pair in pairwise(quarters)]
    assert changed[0][1] and not changed[0][3]
    assert changed[1][1] and changed[1][2]


@pytest.mark.parametrize("config", [{"means": [-2, -1]}, {"means": [0, 0], "stds": 0}, {"n_arms": 200}])
def test_any_arms_can_be_drawn(config):
    env = gym.make("Bandit-v0", render_mode="rgb_array", **config)
    env.reset(seed=0)
    env.step(1)
    assert env.render().std() > 0


def test_a_window_is_opened_and_closed(monkeypatch):
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    env = gym.make("Bandit-v0", render_mode="human")
    env.reset(seed=0)
    env.step(3)
    import pygame

    assert pygame.display.get_surface().get_size() == (640, 360)
    env.close()
    assert not pygame.display.get_init()


def test_it_can_be_pickled_after_a_picture():
    env = gym.make("Bandit-v0", render_mode="rgb_array").unwrapped
    env.reset(seed=0)
    env.step(2)
    picture = env.render()
    copy = pickle.loads(pickle.dumps(env))
    assert np.array_equal(copy.render(), picture)
    assert copy.step(4)[1] == env.step(4)[1]


def test_gymnasium_records_a_video(tmp_path):
    env = RecordVideo(gym.make("Bandit-v0", length=5, render_mode="rgb_array"), str(tmp_path / "videos"))
    play(env, range(5), seed=0)
    env.close()
    (video,) = tmp_path.glob("videos/*.mp4")
    assert video.stat().st_size > 1000


def test_sb3_records_a_video(tmp_path):
    copies = make_vec_env("Bandit-v0", 2, seed=0, env_kwargs={"render_mode": "rgb_array"})
    env = VecVideoRecorder(copies, str(tmp_path), lambda step: step == 0, video_length=5)
    env.reset()
    for arm in range(6):
        env.step(np.array([arm, arm]))
    env.close()
    (video,) = tmp_path.glob("*.mp4")
    assert video.stat().st_size > 1000


@pytest.mark.parametrize(
    ("algorithm", "settings"),
    [
        (PPOExt, {"n_steps": 25, "batch_size": 100, "n_epochs": 4, "learning_rate": 0.01}),
        (A2CExt, {"n_steps": 25, "learning_rate": 0.005, "normalize_advantage": True}),
        (REINFORCE, {"n_steps": 100, "batch_size": 200, "learning_rate": 0.01}),
    ],
)
def test_it_is_solved_in_seconds(algorithm, settings):
    env = make_vec_env("Bandit-v0", 8, seed=1)
    model = algorithm("MlpPolicy", env, seed=1, device="cpu", gamma=0.0, **settings).learn(8000)
    score, _ = evaluate_policy(model, env, n_eval_episodes=24, warn=False)
    assert score >= gym.spec("Bandit-v0").reward_threshold
