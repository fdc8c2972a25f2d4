"""Scales observations to [-1, 1] with bounds known before training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeGuard

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from stable_baselines3.common.preprocessing import is_image_space

from sb3_ext.common.arguments import read_flag, read_number
from sb3_ext.common.names import nearest
from sb3_ext.wrappers.base import Recorded
from sb3_ext.wrappers.parameters import change_parts, spaces_with_parts

__all__ = ["ScaleObservations", "is_vector"]

#: Bounds of a Box: for all of its parts, for each, or for some by index
Bounds = float | Sequence[float | None] | Mapping[int, float] | None

#: A bound beyond this means infinity: some environments use the largest float instead
_UNBOUNDED = 1e10
#: Played to suggest bounds
_N_EPISODES, _N_STEPS = 5, 2000


class ScaleObservations(gym.ObservationWrapper, Recorded):
    """
    Scales Box observations from their bounds to [-1, 1]. Unlike ``VecNormalize`` it has no statistics to save or load.

    The bounds are those of the observation space unless given: as one number, as a list with one entry per part
    (``None`` keeps the space's own), or for some parts by index, such as ``{1: -3.0, 3: -4.0}``. For Dict observations
    they are given by key; entries that are not vectors (images, Discrete numbers) stay the same.

    :param env: the environment
    :param low: what becomes -1
    :param high: what becomes 1
    :param clip: cut off values beyond the bounds; otherwise they are scaled like the rest, and the new space is
        unbounded where bounds were given
    """

    def __init__(self, env: gym.Env, low: Any = None, high: Any = None, clip: bool = True) -> None:
        super().__init__(env)
        self._clip = read_flag("clip", clip)
        space = env.observation_space
        if isinstance(space, spaces.Dict):
            self._scales = self._read_dict(space, low, high)
        elif is_vector(space):
            self._scales = {None: self._read(space, low, high, key=None)}
        else:
            raise ValueError(
                f"ScaleObservations is for vectors of numbers, not for {space}. Images are scaled by SB3's CnnPolicy, "
                "and it one-hot encodes Discrete observations."
            )
        self.observation_space = spaces_with_parts(space, {key: scale.space for key, scale in self._scales.items()})

    def observation(self, observation: Any) -> Any:
        return change_parts(observation, self._scales, lambda key, value: self._scales[key].apply(value))

    def _read_dict(self, space: spaces.Dict, low: Any, high: Any) -> dict[str | None, _Scale]:
        vectors = {key: part for key, part in space.items() if is_vector(part)}
        for name, bounds in (("low", low), ("high", high)):
            if bounds is not None and not isinstance(bounds, Mapping):
                raise ValueError(f"{name}={bounds!r} must have keys of the observation: {', '.join(vectors)}.")
            for key in bounds or {}:
                if key not in vectors:
                    raise ValueError(f"{name} has no part {key!r} to scale: {nearest(str(key), vectors)}")
        low, high = low or {}, high or {}
        return {key: self._read(part, low.get(key), high.get(key), key) for key, part in vectors.items()}

    def _read(self, space: spaces.Box, low: Bounds, high: Bounds, key: str | None) -> _Scale:
        lows, highs = _read_bounds("low", low, space.low), _read_bounds("high", high, space.high)
        unbounded = ~((np.abs(lows) <= _UNBOUNDED) & (np.abs(highs) <= _UNBOUNDED))
        if unbounded.any():
            raise ValueError(self._say_unbounded(unbounded, space, key))
        for index in _indices(lows > highs):
            raise ValueError(
                f"ScaleObservations: low={lows[index]:g} is above high={highs[index]:g} at {_index_text(index)}."
            )
        return _Scale(space, lows, highs, self._clip)

    def _say_unbounded(self, unbounded: np.ndarray, space: spaces.Box, key: str | None) -> str:
        indices = _indices(unbounded)
        parts = ", ".join(_index_text(index) for index in indices)
        of_key = "" if key is None else f" of {key!r}"
        text = f"ScaleObservations needs low and high for {parts}{of_key}, without bounds in {space}."
        try:
            seen = np.moveaxis(self._play(key), 0, -1)
        # An environment may raise anything, and the error matters more than the suggestion
        except Exception:
            return text
        ranges = ", ".join(f"{seen[index].min():.2g} to {seen[index].max():.2g}" for index in indices)
        text += f" In {_N_EPISODES} random episodes they ranged from {ranges}."
        if unbounded.ndim != 1:
            return text
        # Random play rarely sees the extremes
        high: dict[Any, Any] = {index[0]: float(f"{2 * np.abs(seen[index]).max():.2g}") for index in indices}
        low: dict[Any, Any] = {index: -bound for index, bound in high.items()}
        if key is not None:
            low, high = {key: low}, {key: high}
        return f"{text} With twice that range: low: {low}, high: {high}."

    def _play(self, key: str | None) -> np.ndarray:
        """A few random episodes. The environment is not used afterwards, since its wrapper failed."""
        self.env.action_space.seed(0)
        observations: list[np.ndarray] = []
        for episode in range(_N_EPISODES):
            observation, _ = self.env.reset(seed=episode)
            over = False
            while not over and len(observations) < _N_STEPS:
                observations.append(observation if key is None else observation[key])
                observation, _, terminated, truncated, _ = self.env.step(self.env.action_space.sample())
                over = terminated or truncated
        return np.stack(observations).astype(np.float64)


class _Scale:
    def __init__(self, space: spaces.Box, low: np.ndarray, high: np.ndarray, clip: bool) -> None:
        self._centre = (low + high) / 2
        half = (high - low) / 2
        # A part that can't change becomes 0
        self._half = np.where(half > 0, half, 1.0)
        self._clip = clip
        self.space = spaces.Box(-1.0, 1.0, space.shape, np.float32)
        if not clip:
            given = (low.astype(np.float32) != space.low) | (high.astype(np.float32) != space.high)
            bounds = np.where(given, np.inf, 1.0).astype(np.float32)
            self.space = spaces.Box(-bounds, bounds, dtype=np.float32)

    def apply(self, observation: np.ndarray) -> np.ndarray:
        scaled = (np.asarray(observation, np.float64) - self._centre) / self._half
        return (np.clip(scaled, -1.0, 1.0) if self._clip else scaled).astype(np.float32)


def is_vector(space: spaces.Space) -> TypeGuard[spaces.Box]:
    """Whether a network sees its numbers as they are."""
    return isinstance(space, spaces.Box) and not is_image_space(space, check_channels=False)


def _read_bounds(name: str, raw: Bounds, own: np.ndarray) -> np.ndarray:
    bounds = own.astype(np.float64)
    if raw is None:
        return bounds
    if isinstance(raw, Mapping):
        for index, value in raw.items():
            if own.ndim != 1 or isinstance(index, bool) or index not in range(len(own)):
                raise ValueError(f"{name} has no part {index!r}: parts of an observation {own.shape} are 0, 1, …")
            bounds[index] = read_number(f"{name}[{index}]", value)
        return bounds
    if isinstance(raw, (list, tuple, np.ndarray)):
        entries = np.asarray(raw, dtype=object)
        if entries.shape != own.shape:
            raise ValueError(f"{name} has entries for {entries.shape}, but the observation is {own.shape}.")
        for place, value in np.ndenumerate(entries):
            if value is not None:
                bounds[place] = read_number(f"{name}[{_index_text(place)}]", value)
        return bounds
    return np.full_like(bounds, read_number(name, raw))


def _indices(mask: np.ndarray) -> list[tuple[int, ...]]:
    return [tuple(int(i) for i in index) for index in np.argwhere(mask)]


def _index_text(index: tuple[int, ...]) -> str:
    return ", ".join(str(i) for i in index)
