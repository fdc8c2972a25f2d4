"""Observations far from unit scale are told of, once, and others are not."""

import warnings

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from stable_baselines3 import DQN
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import VecNormalize

from sb3_ext import REINFORCE, PPOExt
from sb3_ext.callbacks.observation_scale import WarnObservationScale
from sb3_ext.common.extractors import NormalizedMlp
from sb3_ext.wrappers.static_normalization import ScaleObservations


class Sizes(gym.Env):
    """
    :param sizes: observations are uniform between 0 and these
    :param space: what the observation space is, where it isn't a vector without bounds
    """

    def __init__(self, sizes, space=None):
        self._sizes = np.array(sizes)
        self.observation_space = space or spaces.Box(-np.inf, np.inf, self._sizes.shape, np.float32)
        self.action_space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._step = 0
        return self._observe(), {}

    def step(self, action):
        self._step += 1
        return self._observe(), 0.0, False, self._step == 50, {}

    def _observe(self):
        values = self.np_random.random(self._sizes.shape) * self._sizes
        if isinstance(self.observation_space, spaces.Box):
            return values.astype(self.observation_space.dtype)
        return {"a": values.astype(np.float32), "b": (values / 100).astype(np.float32)}


def warnings_of(env, algorithm=PPOExt, policy="MlpPolicy", steps=1200, **kwargs):
    if algorithm is PPOExt:
        kwargs = {"n_steps": 128, "batch_size": 128, "n_epochs": 1, **kwargs}
    model = algorithm(policy, env, seed=0, device="cpu", **kwargs)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.learn(steps, callback=WarnObservationScale())
    env.close()
    return [str(warning.message) for warning in caught if "far from unit scale" in str(warning.message)]


def make(env, n_envs=4):
    return make_vec_env(env, n_envs, seed=0)


@pytest.mark.parametrize("env_id", ["CartPole-v1", "Acrobot-v1", "LunarLander-v3", "Pendulum-v1"])
@pytest.mark.parametrize("n_envs", [1, 8])
def test_environments_that_are_learned_as_they_are_get_no_warning(env_id, n_envs):
    assert not warnings_of(make(env_id, n_envs), steps=max(1100, 260 * n_envs))


def test_the_worst_part_is_named_with_its_range():
    (message,) = warnings_of(make(lambda: Sizes([1.0, 100.0, 3000.0])))
    assert message.startswith("Observation 2 was between ")
    assert "and 3e+03 in the first steps, and 1 more is like it" in message
    assert "`normalize: true`" in message and "ScaleObservations" in message


def test_a_small_part_is_told_of_as_mountain_cars_velocity_is():
    (message,) = warnings_of(make("MountainCar-v0"))
    assert message.startswith("Observation 1 was between -0.0")


@pytest.mark.parametrize("sizes", [[1.0, 0.0], [9.0, 0.2]])
def test_parts_that_do_not_change_or_are_not_far_are_not_told_of(sizes):
    assert not warnings_of(make(lambda: Sizes(sizes)))


def test_bytes_that_are_no_image_are_told_of():
    ram = spaces.Box(0, 255, (4,), np.uint8)
    (message,) = warnings_of(make(lambda: Sizes([255.0] * 4, ram)))
    assert "and 3 more are like it" in message


def test_images_are_not_told_of():
    image = spaces.Box(0, 255, (36, 36, 1), np.uint8)
    env = make(lambda: Sizes(np.full((36, 36, 1), 255.0), image))
    assert not warnings_of(env, policy="CnnPolicy")


def test_a_part_of_a_dict_is_named_by_its_key():
    space = spaces.Dict({key: spaces.Box(-np.inf, np.inf, (2,), np.float32) for key in "ab"})
    (message,) = warnings_of(make(lambda: Sizes([1.0, 50.0], space)), policy="MultiInputPolicy")
    assert message.startswith("Observation 'a', 1, was between")


@pytest.mark.parametrize("algorithm", [REINFORCE, DQN])
def test_it_works_with_other_algorithms(algorithm):
    assert len(warnings_of(make(lambda: Sizes([500.0]), 1), algorithm)) == 1


def test_it_warns_once_in_two_trainings():
    model = PPOExt("MlpPolicy", make(lambda: Sizes([500.0])), n_steps=128, batch_size=128, n_epochs=1, device="cpu")
    callback = WarnObservationScale()
    with pytest.warns(UserWarning, match="far from unit scale") as caught:
        model.learn(1200, callback=callback)
        model.learn(1200, callback=callback, reset_num_timesteps=False)
    assert len([warning for warning in caught if "far from unit scale" in str(warning.message)]) == 1


def test_what_vec_normalize_normalises_is_not_told_of():
    assert not warnings_of(VecNormalize(make(lambda: Sizes([500.0]))))


def test_what_vec_normalize_leaves_alone_is_told_of():
    assert warnings_of(VecNormalize(make(lambda: Sizes([500.0])), norm_obs=False))
    space = spaces.Dict({key: spaces.Box(-np.inf, np.inf, (1,), np.float32) for key in "ab"})
    env = VecNormalize(make(lambda: Sizes([5000.0], space)), norm_obs_keys=["a"])
    (message,) = warnings_of(env, policy="MultiInputPolicy")
    assert message.startswith("Observation 'b', 0,")


def test_what_the_policy_normalises_is_not_told_of():
    extractor = {"features_extractor_class": NormalizedMlp}
    assert not warnings_of(make(lambda: Sizes([500.0])), policy_kwargs=extractor)


def test_what_a_wrapper_normalises_is_not_told_of():
    def make_scaled():
        # Wide bounds: what is left is small, but someone has thought of it
        return ScaleObservations(Sizes([1.0]), low=-100, high=100)

    assert not warnings_of(make(make_scaled, 2))
