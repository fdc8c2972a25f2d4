"""Masks from an environment's info reach MaskablePPO."""

import gymnasium as gym
import numpy as np
import pytest
from stable_baselines3.common.env_util import make_vec_env

from sb3_ext import MaskablePPOExt
from sb3_ext.wrappers import ActionMaskFromInfo


def test_the_mask_is_that_of_the_present_state():
    env = ActionMaskFromInfo(gym.make("Taxi-v4"))
    _, info = env.reset(seed=0)
    for _ in range(20):
        assert (env.action_masks() == info["action_mask"].astype(bool)).all()
        _, _, _, _, info = env.step(int(np.flatnonzero(env.action_masks())[0]))


def test_only_possible_actions_are_taken():
    class Checked(gym.Wrapper):
        def step(self, action):
            assert self.env.action_masks()[action]
            return self.env.step(action)

        def action_masks(self):
            return self.env.action_masks()

    env = make_vec_env(lambda: Checked(ActionMaskFromInfo(gym.make("Taxi-v4"))), 2, seed=0)
    MaskablePPOExt("MlpPolicy", env, n_steps=64, batch_size=64, seed=0, device="cpu").learn(256)


def test_an_environment_without_masks_gets_an_error_that_says_so():
    with pytest.raises(ValueError, match="puts no 'action_mask' into its info"):
        ActionMaskFromInfo(gym.make("CartPole-v1")).reset()
