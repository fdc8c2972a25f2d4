"""Puts a wrapper below SB3's Monitor, where RL Zoo's ``env_wrapper`` can't reach by itself.

RL Zoo wraps an environment in Monitor first, and in what the config asks for then. A wrapper that ends episodes must be
below: a Monitor that doesn't see the end of an episode reports none.
"""

from __future__ import annotations

from collections.abc import Callable

import gymnasium as gym
from stable_baselines3.common.monitor import Monitor

__all__ = ["insert_below_monitor", "wrappers_of"]


def insert_below_monitor(env: gym.Env, make: Callable[[gym.Env], gym.Env]) -> gym.Env:
    """
    Wrap what a Monitor wraps, or the environment itself when it has no Monitor.

    :param env: an environment in any number of wrappers; with several Monitors, all of them will see the new wrapper
    :param make: wraps an environment
    :return: the environment, changed in place when it has a Monitor
    :raises ValueError: when the new wrapper changes a space that wrappers outside the Monitor were built for
    """
    layers = wrappers_of(env)
    monitors = [index for index, layer in enumerate(layers) if isinstance(layer, Monitor)]
    if not monitors:
        return make(env)
    outer = layers[: monitors[-1] + 1]
    monitor = outer[-1]
    inserted = make(monitor.env)
    if not all(isinstance(layer, Monitor) for layer in outer):
        _check_spaces(monitor.env, inserted)
    monitor.env = inserted
    for layer in outer:
        # A layer keeps the spec that it was first asked for, with the time limit in it
        layer._cached_spec = None
    return env


def wrappers_of(env: gym.Env) -> list[gym.Wrapper]:
    """
    :param env: an environment
    :return: its wrappers, the outermost first
    """
    layers = []
    while isinstance(env, gym.Wrapper):
        layers.append(env)
        env = env.env
    return layers


def _check_spaces(inner: gym.Env, inserted: gym.Env) -> None:
    for name in ("observation_space", "action_space"):
        before, after = getattr(inner, name), getattr(inserted, name)
        if before != after:
            raise ValueError(
                f"{type(inserted).__name__} changes the {name} from {before} to {after}, but the wrappers outside "
                "Monitor were built for the former: put it first in env_wrapper."
            )
