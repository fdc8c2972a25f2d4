"""Wrappers that make observations worse: noise, missing parts, delays."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import deepcopy
from typing import Any, SupportsFloat

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.wrappers import DelayObservation

from sb3_ext.common.arguments import read_flag, read_whole
from sb3_ext.common.names import check_choice
from sb3_ext.wrappers.base import Recorded, SeededWrapper
from sb3_ext.wrappers.parameters import parts_of, read_parts, spaces_with_parts

__all__ = ["ObservationDelay", "ObservationDropout", "ObservationNoise"]

#: A number for all parts, a list with one per number of a vector, or a dict of both for a Dict
Numbers = Any


class ObservationNoise(SeededWrapper):
    """
    Adds Gaussian noise to observations.

    :param env: an environment with a Box of floats, or a Dict with some
    :param std: standard deviation: one number, a list with one per number of a vector, or a dict for some entries of a
        Dict
    :param clip: keep observations within the bounds of their space; otherwise noisy parts become unbounded
    """

    def __init__(self, env: gym.Env, std: Numbers, clip: bool = True) -> None:
        super().__init__(env)
        self._clip = read_flag("clip", clip)
        self._std = read_parts("std", std, env.observation_space, _is_float_box, "Boxes of floats")
        self._spaces = parts_of(env.observation_space)
        if not self._clip:
            self._spaces = {key: _without_bounds(self._spaces[key], numbers) for key, numbers in self._std.items()}
            self.observation_space = spaces_with_parts(env.observation_space, self._spaces)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        observation, info = super().reset(seed=seed, options=options)
        return _change_parts(observation, self._std, self._add_noise), info

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = self.env.step(action)
        return _change_parts(observation, self._std, self._add_noise), reward, terminated, truncated, info

    def _add_noise(self, key: str | None, value: np.ndarray) -> np.ndarray:
        noisy = value + self._std[key] * self._random.standard_normal(value.shape)
        # Rounding to the dtype may leave the bounds, so clip afterwards
        noisy = noisy.astype(value.dtype)
        space = self._spaces[key]
        return np.clip(noisy, space.low, space.high) if self._clip else noisy  # type: ignore[attr-defined]


class ObservationDropout(SeededWrapper):
    """
    Hides parts of observations at random: single numbers of a vector, or a discrete observation as a whole.

    :param env: the environment
    :param probability: of hiding a part: one number, a list with one per number of a vector, or a dict for some entries
        of a Dict
    :param fill: what to show instead: "zero", or "last" for the last value shown; the first observation of an episode
        is complete then
    """

    def __init__(self, env: gym.Env, probability: Numbers, fill: str = "zero") -> None:
        super().__init__(env)
        check_choice("fill", fill, ("zero", "last"))
        # In a Discrete space 0 is a state like any other: a wrong one rather than a hidden one
        kinds = (spaces.Box, spaces.MultiBinary)
        wanted = "Box and MultiBinary, Discrete and MultiDiscrete too with fill='last'"
        if fill == "last":
            kinds += (spaces.Discrete, spaces.MultiDiscrete)  # type: ignore[assignment]
        self._fill = fill
        self._probability = read_parts(
            "probability", probability, env.observation_space, lambda space: isinstance(space, kinds), wanted, at_most=1
        )
        self._seen: dict[str | None, np.ndarray] = {}
        if fill == "zero":
            parts = parts_of(env.observation_space)
            zeroed = {key: with_zero(parts[key]) for key in self._probability}
            self.observation_space = spaces_with_parts(env.observation_space, zeroed)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        self._seen = {}
        observation, info = super().reset(seed=seed, options=options)
        return _change_parts(observation, self._probability, self._drop), info

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = self.env.step(action)
        return _change_parts(observation, self._probability, self._drop), reward, terminated, truncated, info

    def _drop(self, key: str | None, value: Any) -> Any:
        value = np.asarray(value)
        hidden = self._random.random(value.shape) < self._probability[key]
        instead = np.zeros_like(value) if self._fill == "zero" else self._seen.get(key, value)
        self._seen[key] = np.where(hidden, instead, value)
        return self._seen[key].copy()[()]  # for Discrete a number, not an array


class ObservationDelay(DelayObservation, Recorded):
    """
    Delays observations by some steps. Repeats the first one until the second is due, while Gymnasium's class shows
    zeros, which may be a valid state.

    :param env: the environment
    :param delay: number of steps
    """

    def __init__(self, env: gym.Env, delay: int) -> None:
        super().__init__(env, read_whole("delay", delay, at_least=0))

    def observation(self, observation: Any) -> Any:
        if not self.observation_queue:
            self.observation_queue.extend(deepcopy(observation) for _ in range(self.delay))
        return super().observation(observation)


def with_zero(space: spaces.Space) -> spaces.Space:
    """A Box without 0 gets wider bounds; other spaces stay the same."""
    if not isinstance(space, spaces.Box) or (np.all(space.low <= 0) and np.all(space.high >= 0)):
        return space
    return spaces.Box(np.minimum(space.low, 0), np.maximum(space.high, 0), dtype=space.dtype.type)


def _is_float_box(space: spaces.Space) -> bool:
    return isinstance(space, spaces.Box) and np.issubdtype(space.dtype, np.floating)


def _without_bounds(space: spaces.Space, std: np.ndarray) -> spaces.Box:
    assert isinstance(space, spaces.Box) and space.dtype is not None
    low = np.where(std > 0, -np.inf, space.low).astype(space.dtype)
    return spaces.Box(low, np.where(std > 0, np.inf, space.high).astype(space.dtype), dtype=space.dtype.type)


def _change_parts(observation: Any, parts: Mapping[str | None, Any], change: Callable[[str | None, Any], Any]) -> Any:
    if None in parts:
        return change(None, observation)
    return {**observation, **{key: change(key, observation[key]) for key in parts}}
