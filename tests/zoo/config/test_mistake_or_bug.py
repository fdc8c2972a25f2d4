"""Errors that a package raises on purpose are mistakes of the user; all others keep their traceback."""

import gymnasium as gym
import pytest
from stable_baselines3 import PPO

from sb3_ext import PPOExt
from sb3_ext.common.usage_error import UsageError
from sb3_ext.zoo.config.files import Section
from sb3_ext.zoo.config.mistakes import raise_if_mistake

SECTION = Section("conf.yml:3", "CartPole-v1", {"n_envs": 2, "own": [{"size": 3}]}, None)


def raised_by(function):
    try:
        function()
    except Exception as error:  # whatever it is
        return error
    raise AssertionError("nothing was raised")


def own_check():
    raise ValueError("raised by the user's code")


@pytest.mark.parametrize(
    "function",
    [
        lambda: PPO("MlpPolicy", "CartPole-v1", use_sde=True),
        lambda: PPOExt("MlpPolicy", "CartPole-v1", value_loss="l1"),
        lambda: PPO("MlpPolicy", "CartPole-v1", batch_size=1),
        lambda: gym.spec("NoSuch-v0"),
    ],
)
def test_a_check_of_an_argument_is_a_mistake(function):
    error = raised_by(function)
    with pytest.raises(UsageError, match=r"conf\.yml:3: ") as usage:
        raise_if_mistake(error, SECTION)
    assert usage.value.__cause__ is error


@pytest.mark.parametrize(
    "function",
    [
        own_check,
        lambda: PPO("MlpPolicy", "CartPole-v1", n_steps="many"),
        lambda: gym.make("CartPole-v1", gravity=3),  # hides the error of the environment's constructor
        lambda: {}["key"],
    ],
)
def test_any_other_error_stays_as_it_is(function):
    assert raise_if_mistake(raised_by(function), SECTION) is None


def test_an_argument_of_the_section_that_nothing_takes_is_a_mistake():
    with pytest.raises(UsageError, match=r"conf\.yml:3: own: 0: size: .*unexpected keyword"):
        raise_if_mistake(raised_by(lambda: gym.make("CartPole-v1", size=3)), SECTION)
