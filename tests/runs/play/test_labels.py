"""Names of actions and observations."""

import gymnasium as gym
import pytest
from stable_baselines3.common.vec_env import DummyVecEnv, VecFrameStack

import sb3_ext.envs  # noqa: F401  registers ours
from sb3_ext.runs.play.labels import action_labels, component_labels, observation_labels
from sb3_ext.wrappers import RemapActions


def make(env_id, wrap=lambda env: env, **kwargs):
    return DummyVecEnv([lambda: wrap(gym.make(env_id, **kwargs))])


def test_an_environment_that_names_its_actions_is_asked():
    assert action_labels(make("Pong-v5_objects"))[:3] == ["NOOP", "FIRE", "RIGHT"]


@pytest.mark.parametrize(
    ("env_id", "labels"),
    [
        ("CartPole-v1", ["left", "right"]),
        ("FrozenLake-v1", ["left", "down", "right", "up"]),
        ("FrozenLake8x8-v1", ["left", "down", "right", "up"]),
        ("LunarLander-v3", ["nothing", "left engine", "main engine", "right engine"]),
        ("Pendulum-v1", []),
    ],
)
def test_actions_of_gymnasium_have_the_names_of_its_documentation(env_id, labels):
    assert action_labels(make(env_id)) == labels


def test_actions_that_a_wrapper_changes_have_no_names():
    assert action_labels(make("CartPole-v1", lambda env: RemapActions(env, [1, 0]))) == []


def test_left_in_frozen_lake_is_left():
    env = gym.make("FrozenLake-v1", is_slippery=False)
    labels = action_labels(make("FrozenLake-v1"))
    place, _ = env.reset(seed=0)
    for label, moved in (("right", 1), ("left", -1), ("down", 4), ("up", -4)):
        after, *_ = env.step(labels.index(label))
        assert after - place == moved
        place = after


def test_components_of_actions_and_observations_have_names():
    assert component_labels(make("Pendulum-v1")) == ["torque"]
    assert component_labels(make("LunarLander-v3", continuous=True)) == ["main engine", "side engines"]
    assert observation_labels(make("CartPole-v1")) == ["position", "velocity", "angle", "angular velocity"]
    assert observation_labels(make("Pong-v5_objects"))[:2] == ["player.x", "player.y"]


def test_stacked_observations_have_no_names():
    assert observation_labels(VecFrameStack(make("CartPole-v1"), 2)) == []


@pytest.mark.parametrize(
    ("env_id", "kwargs"),
    [("Acrobot-v1", {}), ("CarRacing-v3", {"continuous": False}), ("CliffWalking-v1", {}), ("MountainCar-v0", {})],
)
def test_there_is_a_name_for_each_action(env_id, kwargs):
    env = make(env_id, **kwargs)
    assert len(action_labels(env)) == env.action_space.n
