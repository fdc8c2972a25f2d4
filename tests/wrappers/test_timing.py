"""Time limits and frame-skip, and what Monitor reports of them."""

import warnings

import gymnasium as gym
import numpy as np
import pytest
from conftest import ACTION_SPACES
from gymnasium.wrappers import FlattenObservation, TimeLimit
from noise_checks import VEC_ENVS, CountingEnv, check_vec_env, check_wrapped, differs, random_env, trajectory
from rl_zoo3.gym_patches import PatchedTimeLimit
from stable_baselines3 import PPO
from stable_baselines3.common.atari_wrappers import MaxAndSkipEnv
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.monitor import Monitor, load_results

import sb3_ext.envs  # noqa: F401  (registers Atari's ids too)
from sb3_ext.wrappers.base import wrappers_of
from sb3_ext.wrappers.timing import FrameSkip, time_limit

MODULE = "sb3_ext.wrappers.timing"


def episode(env):
    """Plays one, and returns the number of the agent's steps, the rewards and how it ended."""
    env.reset(seed=0)
    rewards, over = [], False
    while not over:
        _, reward, terminated, truncated, info = env.step(env.action_space.sample())
        rewards.append(reward)
        over = terminated or truncated
    return len(rewards), rewards, terminated, truncated, info


@pytest.mark.parametrize("action", ACTION_SPACES)
@pytest.mark.parametrize("wrap", [lambda env: FrameSkip(env, 3), lambda env: FrameSkip(env, [2, 5])])
def test_both_checkers_pass(wrap, action):
    check_wrapped(wrap(random_env(action=action)))


@pytest.mark.parametrize(
    "wrap", [lambda env: FrameSkip(env, 2), lambda env: FrameSkip(env, [1, 3]), lambda env: time_limit(env, 9)]
)
def test_a_real_environment_passes_and_its_spec_makes_it_again(wrap):
    env = wrap(gym.make("CartPole-v1"))
    check_wrapped(env)
    np.testing.assert_equal(trajectory(env.spec.make(), 3), trajectory(env, 3))


def test_seeds_reproduce_random_skips():
    first, same, other = (trajectory(FrameSkip(CountingEnv(), [2, 5]), seed) for seed in (1, 1, 2))
    np.testing.assert_equal(first, same)
    assert differs(first, other)


@pytest.mark.parametrize("kind", VEC_ENVS)
def test_vectorised_environments_give_the_same(kind, closing):
    wrappers = [{f"{MODULE}.time_limit": {"max_episode_steps": 15}}, {f"{MODULE}.FrameSkip": {"skip": [1, 3]}}]
    check_vec_env(kind, "CartPole-v1", wrappers, closing)


@pytest.mark.parametrize("limit", [3, 200])
def test_a_limit_shorter_or_longer_than_the_one_that_is_there_holds(limit):
    env = time_limit(Monitor(gym.make("MountainCar-v0", max_episode_steps=50)), limit)
    steps, _, terminated, truncated, info = episode(env)
    assert steps == info["episode"]["l"] == limit
    assert truncated and not terminated
    assert env.spec.max_episode_steps == limit
    assert sum(isinstance(layer, TimeLimit) for layer in wrappers_of(env)) == 1


@pytest.mark.parametrize(
    "make",
    [
        CountingEnv,
        lambda: TimeLimit(CountingEnv(), 5),
        lambda: TimeLimit(TimeLimit(CountingEnv(), 20), 5),
        lambda: TimeLimit(Monitor(CountingEnv()), 5),
        lambda: FlattenObservation(TimeLimit(Monitor(TimeLimit(CountingEnv(), 20)), 5)),
        lambda: FlattenObservation(CountingEnv()),
        lambda: PatchedTimeLimit(CountingEnv(), 5),
        lambda: PatchedTimeLimit.__bases__[0](CountingEnv(), 5),
    ],
)
def test_the_limit_holds_wherever_others_are(make):
    assert episode(time_limit(make(), 12))[0] == 12


def test_an_environment_that_ends_before_the_limit_terminates():
    _, _, terminated, truncated, _ = episode(time_limit(Monitor(CountingEnv(length=4)), 10))
    assert terminated and not truncated


def test_episodes_at_the_limit_are_reported_and_bootstrapped(tmp_path):
    def wrap(env):
        return time_limit(env, 6)

    vec_env = make_vec_env(CountingEnv, 2, monitor_dir=str(tmp_path), wrapper_class=wrap)
    vec_env.reset()
    for _ in range(12):
        infos = vec_env.step(np.array([0, 1]))[3]
    vec_env.close()
    assert all(info["TimeLimit.truncated"] and info["episode"]["r"] == 21.0 for info in infos)
    rows = load_results(str(tmp_path))
    assert list(rows["r"]) == [21.0] * 4 and list(rows["l"]) == [6] * 4


def test_rewards_of_skipped_steps_are_summed():
    env = FrameSkip(CountingEnv(), 3)
    env.reset()
    observation, reward, *_ = env.step(1)
    assert observation[0] == 3 and reward == 1 + 2 + 3
    assert env.unwrapped.actions == [1, 1, 1]


def test_an_action_lasts_a_random_number_of_steps_within_the_range():
    env = FrameSkip(CountingEnv(), [2, 5])
    env.reset(seed=0)
    steps = np.diff([0] + [env.step(0)[0][0] for _ in range(4000)])
    lengths, counts = np.unique(steps, return_counts=True)
    assert lengths.tolist() == [2, 3, 4, 5]
    np.testing.assert_allclose(counts / 4000, 0.25, atol=0.03)


def test_the_end_of_an_episode_ends_the_skipping():
    steps, rewards, terminated, _, _ = episode(FrameSkip(CountingEnv(length=10), 4))
    assert (steps, rewards, terminated) == (3, [10, 26, 19], True)


@pytest.mark.parametrize("skip", [4, [2, 5]])
def test_score_and_length_are_those_of_the_environment(skip, tmp_path):
    env = FrameSkip(Monitor(CountingEnv(length=10), str(tmp_path / "0")), skip)
    steps, rewards, _, _, info = episode(env)
    env.close()
    assert steps < 10 and sum(rewards) == 55
    assert (info["episode"]["r"], info["episode"]["l"]) == (55, 10)
    assert load_results(str(tmp_path))[["r", "l"]].values.tolist() == [[55, 10]]


def test_evaluation_counts_the_steps_of_the_environment_too():
    def wrap(env):
        return FrameSkip(time_limit(env, 50), 4)

    vec_env = make_vec_env("MountainCar-v0", 1, seed=0, wrapper_class=wrap)
    model = PPO("MlpPolicy", vec_env, n_steps=16, batch_size=16, device="cpu")
    scores, lengths = evaluate_policy(model, vec_env, n_eval_episodes=2, return_episode_rewards=True)
    assert scores == [-50, -50] and lengths == [50, 50]


@pytest.mark.parametrize(
    "make",
    [
        lambda: MaxAndSkipEnv(gym.make("CartPole-v1"), 4),
        lambda: FrameSkip(gym.make("CartPole-v1"), 4),
        lambda: gym.make("ALE/Pong-v5", obs_type="ram"),
    ],
)
def test_a_double_skip_gets_a_warning(make):
    env = make()
    with pytest.warns(UserWarning, match="skips frames and FrameSkip skips again"):
        FrameSkip(env, 2)


@pytest.mark.parametrize("make", [lambda: gym.make("CartPole-v1"), lambda: gym.make("Pong-v5"), CountingEnv])
def test_a_single_skip_gets_none(make):
    env = make()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        FrameSkip(env, 2)


WRONG = [
    (FrameSkip, {"skip": 0}, "skip=0 must be a whole number, at least 1"),
    (FrameSkip, {"skip": 2.5}, "skip=2.5 must be a whole number"),
    (FrameSkip, {"skip": [2, 3, 4]}, "a list of two: lowest and highest"),
    (FrameSkip, {"skip": [0, 3]}, "skip=0 must be a whole number"),
    (FrameSkip, {"skip": [5, 2]}, "the lower number comes first"),
    (time_limit, {"max_episode_steps": 0}, "max_episode_steps=0 must be a whole number, at least 1"),
    (time_limit, {"max_episode_steps": "many"}, "max_episode_steps='many' must be a number"),
]


@pytest.mark.parametrize("wrap, kwargs, message", WRONG)
def test_wrong_values_get_an_error(wrap, kwargs, message):
    with pytest.raises(ValueError, match=message):
        wrap(CountingEnv(), **kwargs)


@pytest.mark.parametrize(
    "wrap, wrong, right", [(FrameSkip, "skips", "skip"), (time_limit, "max_steps", "max_episode_steps")]
)
def test_wrong_names_get_the_nearest_one(wrap, wrong, right):
    with pytest.raises(TypeError, match=f"{wrap.__name__} has no parameter '{wrong}': did you mean '{right}'?"):
        wrap(CountingEnv(), **{wrong: 1})
