"""Wrappers that make a task harder: noisy, sticky or random actions; noisy, missing or late observations."""

from copy import deepcopy
from typing import Any, SupportsFloat

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.wrappers import DelayObservation

from sb3_ext.common.arguments import read_flag, read_number, read_whole
from sb3_ext.common.names import check_choice
from sb3_ext.wrappers.base import Recorded, SeededWrapper
from sb3_ext.wrappers.parameters import change_parts, parts_of, read_parts, spaces_with_parts, with_zero

__all__ = ["ActionNoise", "ObservationDelay", "ObservationDropout", "ObservationNoise", "StickyActions"]


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
        wanted = "actions in a Box of floats, Discrete, MultiDiscrete or MultiBinary"
        self._amount = read_parts(name, raw, space, _has_noise, wanted, at_most)[None]

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
        self._probability = read_number("probability", probability)
        if not 0 <= self._probability <= 1:
            raise ValueError(f"probability={probability!r} must be a probability, between 0 and 1.")
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


class ObservationNoise(SeededWrapper, gym.ObservationWrapper):
    """
    Adds Gaussian noise to observations.

    :param env: an environment with a Box of floats, or a Dict with some
    :param std: standard deviation: one number, a list with one per number of a vector, or a dict for some entries of a
        Dict
    :param clip: keep observations within the bounds of their space; otherwise noisy parts become unbounded
    """

    def __init__(self, env: gym.Env, std: Any, clip: bool = True) -> None:
        super().__init__(env)
        self._clip = read_flag("clip", clip)
        self._std = read_parts("std", std, env.observation_space, _is_float_box, "Boxes of floats")
        self._spaces = parts_of(env.observation_space)
        if not self._clip:
            self._spaces = {key: _without_bounds(self._spaces[key], numbers) for key, numbers in self._std.items()}
            self.observation_space = spaces_with_parts(env.observation_space, self._spaces)

    def observation(self, observation: Any) -> Any:
        return change_parts(observation, self._std, self._add_noise)

    def _add_noise(self, key: str | None, value: np.ndarray) -> np.ndarray:
        noisy = value + self._std[key] * self._random.standard_normal(value.shape)
        # Rounding to the dtype may leave the bounds, so clip afterwards
        noisy = noisy.astype(value.dtype)
        space = self._spaces[key]
        return np.clip(noisy, space.low, space.high) if self._clip else noisy  # type: ignore[attr-defined]


class ObservationDropout(SeededWrapper, gym.ObservationWrapper):
    """
    Hides parts of observations at random: single numbers of a vector, or a discrete observation as a whole.

    :param env: the environment
    :param probability: of hiding a part: one number, a list with one per number of a vector, or a dict for some entries
        of a Dict
    :param fill: what to show instead: "zero", or "last" for the last value shown; the first observation of an episode
        is complete then
    """

    def __init__(self, env: gym.Env, probability: Any, fill: str = "zero") -> None:
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
        return super().reset(seed=seed, options=options)

    def observation(self, observation: Any) -> Any:
        return change_parts(observation, self._probability, self._drop)

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


def _has_noise(space: spaces.Space) -> bool:
    return _is_float_box(space) or isinstance(space, (spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary))


def _is_float_box(space: spaces.Space) -> bool:
    return isinstance(space, spaces.Box) and np.issubdtype(space.dtype, np.floating)


def _without_bounds(space: spaces.Space, std: np.ndarray) -> spaces.Box:
    assert isinstance(space, spaces.Box) and space.dtype is not None
    low = np.where(std > 0, -np.inf, space.low).astype(space.dtype)
    return spaces.Box(low, np.where(std > 0, np.inf, space.high).astype(space.dtype), dtype=space.dtype.type)
