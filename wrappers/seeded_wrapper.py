"""What wrappers that draw random numbers have in common: a generator of their own, seeded with the environment."""

from __future__ import annotations

import zlib
from typing import Any

import gymnasium as gym
import numpy as np

from sb3_ext.wrappers.monitor_order import wrappers_of

__all__ = ["SeededWrapper"]


class SeededWrapper(gym.Wrapper, gym.utils.RecordConstructorArgs):
    """
    A wrapper with random numbers of its own: the environment below sees the same ones with the wrapper and without.

    The same seed gives the same numbers. Other wrappers of the chain get other ones from it, also those of the same
    class.

    :param env: the environment
    :param parameters: the others of the constructor, so that the environment's spec can make it again
    """

    def __init__(self, env: gym.Env, **parameters: Any) -> None:
        gym.utils.RecordConstructorArgs.__init__(self, **parameters)
        gym.Wrapper.__init__(self, env)
        self._random = np.random.default_rng()

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        if seed is not None:
            twins = sum(type(layer) is type(self) for layer in wrappers_of(self.env))
            name = zlib.crc32(type(self).__name__.encode())
            self._random = np.random.default_rng(np.random.SeedSequence([seed, name, twins]))
        return self.env.reset(seed=seed, options=options)
