"""What wrappers share: random numbers of their own, a place below Monitor, and metrics about an episode."""

import inspect
import zlib
from collections.abc import Callable, Mapping
from typing import Any, Self

import gymnasium as gym
import numpy as np
from gymnasium.utils import RecordConstructorArgs
from stable_baselines3.common.monitor import Monitor

from sb3_ext.common.names import check_keywords

__all__ = ["EPISODE_KEY", "Recorded", "SeededWrapper", "insert_below_monitor", "report", "wrappers_of"]

#: Where ``info`` has the metrics of an episode, at its last step. The callback ``EpisodeMetrics`` logs their means
EPISODE_KEY = "ext_episode"


class Recorded(RecordConstructorArgs):
    """
    Checks the names of a wrapper's arguments, and records them so that the environment's spec can make it again. To be
    inherited from after Gymnasium's class.
    """

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        self = super().__new__(cls)
        parameters = inspect.signature(cls.__init__).parameters
        if all(parameter.kind is not parameter.VAR_KEYWORD for parameter in parameters.values()):
            check_keywords(cls.__name__, kwargs, parameters)
        given = {**dict(zip(list(parameters)[1:], args, strict=False)), **kwargs}
        if given:  # copies have none
            RecordConstructorArgs.__init__(self, **{name: value for name, value in given.items() if name != "env"})
        return self


class SeededWrapper(gym.Wrapper, Recorded):
    """
    A wrapper with its own random numbers: the environment draws the same ones with the wrapper and without.

    The same seed gives the same numbers. Each wrapper of a chain gets different ones, even within one class.

    :param env: the environment
    """

    def __init__(self, env: gym.Env) -> None:
        super().__init__(env)
        self._random = np.random.default_rng()

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        if seed is not None:
            same_class = sum(type(layer) is type(self) for layer in wrappers_of(self.env))
            name = zlib.crc32(type(self).__name__.encode())
            self._random = np.random.default_rng(np.random.SeedSequence([seed, name, same_class]))
        return super().reset(seed=seed, options=options)


def report(info: dict[str, Any], numbers: Mapping[str, float]) -> None:
    """
    Add metrics of the episode that this step ends. Those of other wrappers stay.

    :param info: the step's info, changed in place
    :param numbers: metric name (``reward/height``) to value
    """
    collected = info.setdefault(EPISODE_KEY, {})
    for name, value in numbers.items():
        collected[name] = float(value)


def insert_below_monitor(env: gym.Env, make: Callable[[gym.Env], gym.Env]) -> gym.Env:
    """
    Wrap what a Monitor wraps, or the environment itself if it has no Monitor.

    RL Zoo puts the wrappers of a config around Monitor. One that ends episodes must be below it: a Monitor that doesn't
    see the end of an episode doesn't report it.

    :param env: a wrapped environment; if it has several Monitors, all of them see the new wrapper
    :param make: wraps an environment
    :return: the environment, changed in place if it has a Monitor
    :raises ValueError: if the new wrapper changes a space that wrappers outside the Monitor were built for
    """
    layers = wrappers_of(env)
    monitors = [index for index, layer in enumerate(layers) if isinstance(layer, Monitor)]
    if not monitors:
        return make(env)
    outer = layers[: monitors[-1] + 1]
    monitor = outer[-1]
    inserted = make(monitor.env)
    for name in ("observation_space", "action_space"):
        before, after = getattr(monitor.env, name), getattr(inserted, name)
        if before != after and not all(isinstance(layer, Monitor) for layer in outer):
            raise ValueError(
                f"{type(inserted).__name__} changes the {name} from {before} to {after}, but the wrappers outside "
                "Monitor were built for the former: put it first in env_wrapper."
            )
    monitor.env = inserted
    for layer in outer:
        # A layer caches its spec, with the time limit in it
        layer._cached_spec = None
    return env


def wrappers_of(env: gym.Env) -> list[gym.Wrapper]:
    """All wrappers, the outermost first."""
    layers = []
    while isinstance(env, gym.Wrapper):
        layers.append(env)
        env = env.env
    return layers
