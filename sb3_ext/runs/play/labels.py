"""Names of actions and observations: those that an environment has, or those of Gymnasium's documentation."""

from typing import Any

import gymnasium as gym
from gymnasium import spaces
from stable_baselines3.common.vec_env import DummyVecEnv, VecEnv, VecFrameStack, is_vecenv_wrapped

from sb3_ext.wrappers.base import wrappers_of

__all__ = ["action_labels", "component_labels", "observation_labels"]

#: Gymnasium's environments don't name their actions. By class
_ACTIONS: dict[str, tuple[str, ...]] = {
    "AcrobotEnv": ("torque -1", "no torque", "torque +1"),
    "BlackjackEnv": ("stick", "hit"),
    "CarRacing": ("nothing", "steer right", "steer left", "gas", "brake"),
    "CartPoleEnv": ("left", "right"),
    "CliffWalkingEnv": ("up", "right", "down", "left"),
    "FrozenLakeEnv": ("left", "down", "right", "up"),
    "LunarLander": ("nothing", "left engine", "main engine", "right engine"),
    "MountainCarEnv": ("left", "nothing", "right"),
    "TaxiEnv": ("down", "up", "right", "left", "pick up", "drop off"),
}
_COMPONENTS: dict[str, tuple[str, ...]] = {
    "BipedalWalker": ("hip 1", "knee 1", "hip 2", "knee 2"),
    "CarRacing": ("steering", "gas", "brake"),
    "LunarLander": ("main engine", "side engines"),
    "Continuous_MountainCarEnv": ("force",),
    "PendulumEnv": ("torque",),
}
_OBSERVATIONS: dict[str, tuple[str, ...]] = {
    "AcrobotEnv": (
        "cos angle 1",
        "sin angle 1",
        "cos angle 2",
        "sin angle 2",
        "angular velocity 1",
        "angular velocity 2",
    ),
    "CartPoleEnv": ("position", "velocity", "angle", "angular velocity"),
    "LunarLander": ("x", "y", "velocity x", "velocity y", "angle", "angular velocity", "left leg", "right leg"),
    "MountainCarEnv": ("position", "velocity"),
    "Continuous_MountainCarEnv": ("position", "velocity"),
    "PendulumEnv": ("cos angle", "sin angle", "angular velocity"),
}


def action_labels(vec_env: VecEnv) -> list[str]:
    """Of discrete actions; empty if nobody has named them."""
    space = vec_env.action_space
    if not isinstance(space, spaces.Discrete):
        return []
    if vec_env.has_attr("get_action_meanings"):
        labels = list(vec_env.env_method("get_action_meanings", indices=0)[0])
    else:
        labels = _documented(vec_env, _ACTIONS, gym.ActionWrapper)
    # A wrapper may change the actions and not their names
    return labels if len(labels) == space.n else []


def component_labels(vec_env: VecEnv) -> list[str]:
    """Of the numbers of a continuous action."""
    labels = _documented(vec_env, _COMPONENTS, gym.ActionWrapper)
    return labels if vec_env.action_space.shape == (len(labels),) else []


def observation_labels(vec_env: VecEnv) -> list[str]:
    """Of the numbers of an observation."""
    if vec_env.has_attr("feature_names"):
        labels = list(vec_env.get_attr("feature_names", indices=0)[0])
    else:
        labels = _documented(vec_env, _OBSERVATIONS, gym.ObservationWrapper)
    is_stacked = is_vecenv_wrapped(vec_env, VecFrameStack)
    return labels if vec_env.observation_space.shape == (len(labels),) and not is_stacked else []


def _documented(vec_env: VecEnv, labels: dict[str, tuple[str, ...]], changes: type[gym.Wrapper]) -> list[str]:
    base: Any = vec_env.unwrapped
    if not isinstance(base, DummyVecEnv) or any(isinstance(layer, changes) for layer in wrappers_of(base.envs[0])):
        return []
    env_class = type(base.envs[0].unwrapped)
    return list(labels.get(env_class.__name__, ())) if env_class.__module__.startswith("gymnasium.") else []
