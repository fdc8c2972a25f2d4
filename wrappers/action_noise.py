"""Wrappers that change the agent's actions: noise, random actions, sticky actions."""

from __future__ import annotations

from copy import deepcopy
from typing import Any, SupportsFloat

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from sb3_ext.wrappers.base import SeededWrapper
from sb3_ext.wrappers.parameters import read_parts, read_probability

__all__ = ["ActionNoise", "StickyActions"]


class ActionNoise(SeededWrapper):
    """
    Disturbs actions: a Box with Gaussian noise within its bounds, other spaces with random actions.

    :param env: an environment with Box, Discrete, MultiDiscrete or MultiBinary actions
    :param std: for a Box: standard deviation of the noise, one number or a list with one per part of the action
    :param probability: for other spaces: that a part is replaced by a random one (which may be the same); one number or
        a list with one per part
    """

    def __init__(self, env: gym.Env, std: Any = None, probability: Any = None) -> None:
        super().__init__(env)
        space = env.action_space
        name, other, raw = "probability", "std", probability
        if isinstance(space, spaces.Box):
            name, other, raw = "std", "probability", std
        if raw is None or (std is not None and probability is not None):
            raise ValueError(f"ActionNoise needs {name}, not {other}, for actions in {space}.")
        at_most = np.inf if name == "std" else 1
        self._amount = read_parts(name, raw, space, _has_noise, _WANTED, at_most)[None]

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        return self.env.step(self._disturb(np.asarray(action)))

    def _disturb(self, action: np.ndarray) -> Any:
        space = self.env.action_space
        if isinstance(space, spaces.Box):
            noisy = action + self._amount * self._random.standard_normal(action.shape)
            return np.clip(noisy.astype(space.dtype), space.low, space.high)
        replaced = self._random.random(action.shape) < self._amount
        return np.where(replaced, self._draw(space), action).astype(space.dtype)[()]

    def _draw(self, space: spaces.Space) -> Any:
        # Not space.sample(), whose generator is for the agent's random actions
        if isinstance(space, spaces.MultiBinary):
            return self._random.integers(2, size=space.shape)
        if isinstance(space, spaces.MultiDiscrete):
            return space.start + self._random.integers(space.nvec)
        assert isinstance(space, spaces.Discrete)
        return space.start + self._random.integers(space.n)


class StickyActions(SeededWrapper):
    """
    Repeats the previous action with some probability, whatever the agent does (Machado et al., 2018).

    Works for every action space. Unlike Gymnasium's ``StickyAction`` it leaves the environment's random numbers alone.

    :param env: the environment
    :param probability: of repeating; the first action of an episode is always the agent's
    """

    def __init__(self, env: gym.Env, probability: float) -> None:
        super().__init__(env)
        self._probability = read_probability("probability", probability)
        self._previous: Any = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        self._previous = None
        return super().reset(seed=seed, options=options)

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        sticks = self._random.random() < self._probability
        if not sticks or self._previous is None:
            # A copy, since the caller may reuse the array
            self._previous = deepcopy(action)
        return self.env.step(deepcopy(self._previous))


_WANTED = "actions in a Box of floats, Discrete, MultiDiscrete or MultiBinary"


def _has_noise(space: spaces.Space) -> bool:
    if isinstance(space, spaces.Box):
        return bool(np.issubdtype(space.dtype, np.floating))
    return isinstance(space, (spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary))
