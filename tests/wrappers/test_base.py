"""Wrappers that must be below Monitor get there."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.wrappers import FlattenObservation, RescaleAction, TimeLimit, TransformReward
from noise_checks import CountingEnv
from stable_baselines3.common.monitor import Monitor, load_results

from sb3_ext.wrappers.base import insert_below_monitor, wrappers_of


class Marked(gym.Wrapper):
    mark = "here"


def play(env, n_episodes=2):
    """Returns the infos of the steps that end an episode."""
    last_infos = []
    for _ in range(n_episodes):
        env.reset(seed=0)
        over = False
        while not over:
            *_, terminated, truncated, info = env.step(env.action_space.sample())
            over = terminated or truncated
        last_infos.append(info)
    return last_infos


def test_episodes_that_the_new_wrapper_ends_are_reported(tmp_path):
    env = Monitor(CountingEnv(), str(tmp_path / "0"))
    assert insert_below_monitor(env, lambda inner: TimeLimit(inner, 3)) is env
    infos = play(env)
    env.close()
    assert [(info["episode"]["r"], info["episode"]["l"]) for info in infos] == [(6.0, 3), (6.0, 3)]
    rows = load_results(str(tmp_path))
    assert list(rows["r"]) == [6.0, 6.0] and list(rows["l"]) == [3, 3]


def test_wrappers_outside_stay_outside():
    env = TransformReward(Monitor(CountingEnv()), lambda reward: 10 * reward)
    head = insert_below_monitor(env, lambda inner: TimeLimit(inner, 3))
    assert [type(layer) for layer in wrappers_of(head)] == [TransformReward, Monitor, TimeLimit]
    assert play(head)[0]["episode"]["r"] == 6.0


def test_without_monitor_the_environment_itself_is_wrapped():
    env = TransformReward(CountingEnv(), abs)
    wrapped = insert_below_monitor(env, Marked)
    assert isinstance(wrapped, Marked) and wrapped.env is env
    bare = CountingEnv()
    assert insert_below_monitor(bare, Marked).env is bare


def test_all_of_several_monitors_see_the_new_wrapper():
    env = insert_below_monitor(Monitor(Monitor(CountingEnv())), lambda inner: TimeLimit(inner, 3))
    assert [type(layer) for layer in wrappers_of(env)] == [Monitor, Monitor, TimeLimit]


def test_attributes_are_found_through_monitor():
    env = insert_below_monitor(FlattenObservation(Monitor(CountingEnv())), Marked)
    assert env.get_wrapper_attr("mark") == "here"
    assert env.get_wrapper_attr("actions") == []


def test_the_spec_is_that_of_the_new_wrapper():
    env = FlattenObservation(Monitor(gym.make("CartPole-v1")))
    assert env.spec.max_episode_steps == 500
    assert insert_below_monitor(env, lambda inner: TimeLimit(inner, 3)).spec.max_episode_steps == 3


def test_spaces_may_change_below_a_monitor_that_is_the_outermost():
    env = Monitor(gym.make("Pendulum-v1"))
    env = insert_below_monitor(env, lambda inner: RescaleAction(inner, np.float32(-1), np.float32(1)))
    assert env.action_space == spaces.Box(-1, 1, (1,), np.float32)


def test_spaces_that_outer_wrappers_were_built_for_may_not_change():
    env = FlattenObservation(Monitor(gym.make("Pendulum-v1")))
    with pytest.raises(ValueError, match=r"RescaleAction changes the action_space .* put it first in env_wrapper"):
        insert_below_monitor(env, lambda inner: RescaleAction(inner, np.float32(-1), np.float32(1)))
    assert [type(layer) for layer in wrappers_of(env)][:2] == [FlattenObservation, Monitor]
    assert env.action_space == gym.make("Pendulum-v1").action_space
