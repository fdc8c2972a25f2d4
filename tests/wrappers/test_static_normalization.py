"""Observations are scaled from known bounds to [-1, 1]."""

import pickle

import gymnasium as gym
import numpy as np
import pytest
from conftest import ACTION_SPACES, RandomEnv
from gymnasium import spaces
from gymnasium.utils.env_checker import check_env
from stable_baselines3.common.env_checker import check_env as check_env_of_sb3
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv

from sb3_ext.vec_env.multicore import MulticoreVecEnv
from sb3_ext.wrappers.static_normalization import ScaleObservations

CARTPOLE_BOUNDS = {"low": {1: -3.0, 3: -4.0}, "high": {1: 3.0, 3: 4.0}}


def make_env(space):
    return RandomEnv(space, ACTION_SPACES["Discrete"])


def make_cartpole():
    return ScaleObservations(gym.make("CartPole-v1"), **CARTPOLE_BOUNDS)


def box(low, high, dtype=np.float32):
    return spaces.Box(np.array(low, dtype), np.array(high, dtype), dtype=dtype)


@pytest.mark.parametrize(
    ("bounds", "expected"),
    [
        ({}, [-1.0, 0.0, 1.0]),
        ({"low": -30, "high": 30.0}, [0.0, 0.5, 1.0]),
        ({"low": [None, "0", 10], "high": [None, 20, 50]}, [-1.0, 0.5, 0.0]),
        ({"high": {0: "4e1"}}, [-1.0, 0.0, 1.0]),
        ({"low": {0: -20}, "high": {2: 110}}, [0.0, 0.0, -0.6]),
    ],
)
def test_bounds_become_minus_one_and_one(bounds, expected):
    env = ScaleObservations(make_env(box([0, 10, 10], [20, 20, 30])), **bounds)
    np.testing.assert_allclose(env.observation(np.array([0, 15, 30], np.float32)), expected, atol=1e-6)
    assert env.observation_space == spaces.Box(-1.0, 1.0, (3,), np.float32)


def test_a_part_that_cannot_change_becomes_zero():
    env = ScaleObservations(make_env(box([3, 0], [3, 1])))
    assert env.observation(np.array([3, 1], np.float32)).tolist() == [0.0, 1.0]


def test_bytes_are_scaled():
    env = ScaleObservations(make_env(box([0, 0], [255, 255], np.uint8)))
    observation, _ = env.reset(seed=0)
    assert observation.dtype == np.float32 and env.observation_space.contains(observation)
    assert env.observation(np.array([0, 255], np.uint8)).tolist() == [-1.0, 1.0]


def test_what_lies_beyond_the_bounds_is_cut_off_or_not():
    beyond = np.array([0.0, 6.0, 0.0, 0.0], np.float32)
    assert make_cartpole().observation(beyond)[1] == 1.0
    unclipped = ScaleObservations(gym.make("CartPole-v1"), **CARTPOLE_BOUNDS, clip=False)
    assert unclipped.observation(beyond)[1] == 2.0


def test_without_clipping_only_parts_with_the_spaces_own_bounds_have_bounds():
    env = make_env(box([0, 0, 0, 0], [1, 1, 1, 1]))
    space = ScaleObservations(env, low={1: 0.5, 3: 0.5}, high={2: 0.5, 3: 0.6}, clip=False).observation_space
    assert space.high.tolist() == [1.0, np.inf, np.inf, np.inf]
    assert space.low.tolist() == [-1.0, -np.inf, -np.inf, -np.inf]


def test_parts_of_a_dict_that_are_vectors_are_scaled():
    image = spaces.Box(0, 255, (8, 8, 3), np.uint8)
    parts = {"speed": box([-np.inf], [np.inf]), "place": box([0], [4]), "image": image, "gear": spaces.Discrete(3)}
    env = ScaleObservations(make_env(spaces.Dict(parts)), low={"speed": -8}, high={"speed": [8]})
    observation, _ = env.reset(seed=0)
    assert env.observation_space.contains(observation)
    assert env.observation_space["image"] == image
    scaled = env.observation({**observation, "speed": np.array([4.0]), "place": np.array([4.0])})
    assert scaled["speed"] == 0.5 and scaled["place"] == 1.0 and scaled["gear"] == observation["gear"]


def test_missing_bounds_get_an_error_with_a_suggestion_that_works():
    with pytest.raises(ValueError, match=r"needs low and high for 1, 3, without bounds in Box") as error:
        ScaleObservations(gym.make("CartPole-v1"))
    suggestion = str(error.value).split("twice that range: ")[1].removesuffix(".")
    low, high = (eval(part) for part in suggestion.removeprefix("low: ").split(", high: "))
    assert set(low) == set(high) == {1, 3} and all(-20 < low[i] < -1 and 1 < high[i] < 20 for i in low)
    ScaleObservations(gym.make("CartPole-v1"), low=low, high=high)


def test_the_suggestion_is_the_same_each_time():
    said = []
    for _ in range(2):
        with pytest.raises(ValueError) as error:
            ScaleObservations(gym.make("CartPole-v1"))
        said.append(str(error.value))
    assert said[0] == said[1]


def test_the_largest_float_is_no_bound():
    largest = np.finfo(np.float32).max
    with pytest.raises(ValueError, match="needs low and high for 1,"):
        ScaleObservations(make_env(box([0, -largest], [1, largest])), low={0: -1})


def test_an_environment_that_cannot_be_played_still_gets_the_error():
    class Broken(RandomEnv):
        def step(self, action):
            raise RuntimeError("no simulator")

    env = Broken(box([-np.inf], [np.inf]), ACTION_SPACES["Discrete"])
    with pytest.raises(ValueError, match="needs low and high for 0"):
        ScaleObservations(env)


@pytest.mark.parametrize(
    ("space", "arguments", "message"),
    [
        (box([0, 0], [1, 1]), {"low": {2: 0}}, r"low has no part 2: parts of an observation \(2,\)"),
        (box([0, 0], [1, 1]), {"high": [1, 2, 3]}, r"high has entries for \(3,\), but the observation is \(2,\)"),
        (box([0, 0], [1, 1]), {"low": 3}, "low=3 is above high=1 at 0"),
        (box([0, 0], [1, 1]), {"low": [0, "x"]}, r"low\[1\]='x' must be a number"),
        (box([0, 0], [1, 1]), {"clip": "no"}, "clip='no' must be True or False"),
        (box([0, 0], [1, 1]), {"high": float("nan")}, "needs low and high for 0, 1"),
        (spaces.Discrete(3), {}, "is for vectors of numbers"),
        (spaces.Box(0, 255, (8, 8, 3), np.uint8), {}, "Images are scaled by SB3's CnnPolicy"),
        (spaces.Dict(speed=box([0], [1])), {"low": {"sped": 0}}, "no part 'sped' to scale: did you mean 'speed'"),
        (spaces.Dict(speed=box([0], [1])), {"low": 0}, "must have keys of the observation: speed"),
    ],
)
def test_wrong_bounds_get_a_clear_error(space, arguments, message):
    with pytest.raises(ValueError, match=message):
        ScaleObservations(make_env(space), **arguments)


def test_the_checkers_pass():
    check_env(make_cartpole(), skip_render_check=True)
    check_env_of_sb3(make_cartpole())


def test_it_can_be_made_again_from_its_spec_and_pickled():
    env = make_cartpole()
    again = gym.make(env.spec)
    copy = pickle.loads(pickle.dumps(env))
    first = env.reset(seed=3)[0]
    np.testing.assert_array_equal(first, again.reset(seed=3)[0])
    np.testing.assert_array_equal(first, copy.reset(seed=3)[0])


@pytest.mark.parametrize("vec_env_class", [DummyVecEnv, SubprocVecEnv, MulticoreVecEnv])
def test_it_works_in_vectorised_environments(closing, vec_env_class):
    vec_env = closing(make_vec_env(make_cartpole, 2, seed=0, vec_env_cls=vec_env_class))
    plain = closing(make_vec_env("CartPole-v1", 2, seed=0))
    bounds = np.array([4.8, 3.0, 24 * np.pi / 180, 4.0])
    np.testing.assert_allclose(vec_env.reset() * bounds, plain.reset(), rtol=1e-5)
    for _ in range(5):
        actions = np.array([0, 1])
        np.testing.assert_allclose(vec_env.step(actions)[0] * bounds, plain.step(actions)[0], rtol=1e-5)


def test_trained_with_rl_zoo_it_is_written_in_yaml():
    import yaml
    from rl_zoo3.utils import get_wrapper_class

    line = """
    env_wrapper:
      - sb3_ext.wrappers.static_normalization.ScaleObservations:
          low: {1: -3, 3: -4}
          high: {1: 3, 3: 4}
    """
    env = get_wrapper_class(yaml.safe_load(line))(gym.make("CartPole-v1"))
    assert env.observation_space == make_cartpole().observation_space
