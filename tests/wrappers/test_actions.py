"""Masks from an environment's info reach MaskablePPO; a smaller set of actions."""

from copy import deepcopy

import gymnasium as gym
import numpy as np
import pytest
from conftest import ACTION_SPACES
from gymnasium import spaces
from noise_checks import VEC_ENVS, CountingEnv, check_vec_env, check_wrapped, random_env, trajectory
from stable_baselines3.common.env_util import make_vec_env

import sb3_ext.envs  # noqa: F401
from sb3_ext import MaskablePPOExt
from sb3_ext.wrappers.actions import ActionMaskFromInfo, RemapActions

CHOICES = {
    "Discrete": [2, 0],
    "MultiDiscrete": [[0, 2], [1, 1], [0, 0]],
    "MultiBinary": [[0, 0, 0], [1, 0, 1]],
    "Box": [[-1, 0], [0.5, 0.5], [1, -1], [0, 0]],
}


@pytest.mark.parametrize("space, actions", CHOICES.items())
def test_the_environment_gets_the_actions_of_the_list(space, actions):
    env = RemapActions(CountingEnv(ACTION_SPACES[space]), actions)
    assert env.action_space == spaces.Discrete(len(actions))
    env.reset()
    for index in range(len(actions)):
        env.step(np.int64(index))
    taken = env.unwrapped.actions
    np.testing.assert_equal([np.asarray(action).tolist() for action in taken], actions)
    assert all(np.asarray(action).dtype == ACTION_SPACES[space].dtype for action in taken)


@pytest.mark.parametrize("space, actions", CHOICES.items())
def test_both_checkers_pass(space, actions):
    check_wrapped(RemapActions(random_env(action=space), actions))


@pytest.mark.parametrize("env_id, actions", [("Acrobot-v1", [0, 2]), ("Pendulum-v1", [[-2], [0], [2]])])
def test_a_real_environment_passes_and_its_spec_makes_it_again(env_id, actions):
    env = RemapActions(gym.make(env_id), actions)
    check_wrapped(env)
    np.testing.assert_equal(trajectory(env.spec.make(), 3), trajectory(env, 3))


@pytest.mark.parametrize("kind", VEC_ENVS)
@pytest.mark.parametrize("env_id, actions", [("Acrobot-v1", [0, 2]), ("Pendulum-v1", [[-2], [0], [2]])])
def test_vectorised_environments_give_the_same(kind, env_id, actions, closing):
    check_vec_env(kind, env_id, [{"sb3_ext.wrappers.actions.RemapActions": {"actions": actions}}], closing)


@pytest.mark.parametrize("actions", [[0, 2, 3], ["NOOP", "RIGHT", "LEFT"], ["NOOP", 2, "LEFT"]])
def test_actions_of_atari_games_have_names(actions):
    env = RemapActions(gym.make("Pong-v5", obs_type="ram"), actions)
    assert env.action_space == spaces.Discrete(3)
    assert [env.action(index) for index in range(3)] == [0, 2, 3]


def test_an_environment_may_change_the_array_it_gets():
    env = RemapActions(CountingEnv(ACTION_SPACES["Box"]), [[0.5, 0.5]])
    env.action(0)[:] = -1
    np.testing.assert_equal(env.action(0), np.array([0.5, 0.5], np.float32))


def test_action_masks_are_those_of_the_list():
    env = RemapActions(ActionMaskFromInfo(gym.make("Taxi-v4")), [5, 0, 1, 2, 3])
    _, info = env.reset(seed=0)
    masks = env.get_wrapper_attr("action_masks")()
    assert masks.tolist() == info["action_mask"].astype(bool)[[5, 0, 1, 2, 3]].tolist()
    MaskablePPOExt("MlpPolicy", env, n_steps=32, batch_size=32, n_epochs=1, device="cpu").learn(32)


def test_an_environment_without_masks_still_has_none():
    assert not RemapActions(gym.make("CartPole-v1"), [0, 1]).has_wrapper_attr("action_masks")


WRONG = [
    (ACTION_SPACES["Discrete"], [0, 3], "3 is not an action in Discrete"),
    (ACTION_SPACES["Discrete"], [0, 1.5], "1.5 is not an action in Discrete"),
    (ACTION_SPACES["Discrete"], [[0, 1]], r"\[0, 1\] is not an action in Discrete"),
    (ACTION_SPACES["Discrete"], [0, 0], "contains 0 twice"),
    (ACTION_SPACES["Discrete"], [], "must be a list of actions"),
    (ACTION_SPACES["Discrete"], 3, "actions=3 must be a list of actions"),
    (ACTION_SPACES["Discrete"], ["LEFT"], "<CountingEnv instance> has no names for its actions, such as 'LEFT'"),
    (ACTION_SPACES["Box"], [[0, 2]], r"\[0, 2\] is not an action in Box"),
    (ACTION_SPACES["Box"], [[0]], r"\[0\] is not an action in Box"),
    (ACTION_SPACES["Box"], [[0, "a"]], "is not an action in Box"),
    (spaces.Tuple([spaces.Discrete(2)]), [[0]], "can't be used for actions in Tuple"),
]


@pytest.mark.parametrize("space, actions, message", WRONG)
def test_wrong_values_get_an_error(space, actions, message):
    with pytest.raises(ValueError, match=message):
        RemapActions(CountingEnv(deepcopy(space)), actions)


def test_a_wrong_name_of_an_action_gets_the_nearest_one():
    with pytest.raises(ValueError, match=r"has no action 'RIGTH': did you mean 'RIGHT'?"):
        RemapActions(gym.make("Pong-v5", obs_type="ram"), ["NOOP", "RIGTH"])


def test_a_wrong_name_of_a_parameter_gets_the_nearest_one():
    with pytest.raises(TypeError, match=r"RemapActions has no parameter 'action': did you mean 'actions'?"):
        RemapActions(CountingEnv(), action=[0])


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
    with pytest.raises(ValueError, match="has no 'action_mask', only"):
        ActionMaskFromInfo(gym.make("CartPole-v1")).reset()
