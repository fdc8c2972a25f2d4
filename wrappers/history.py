"""Wrappers for memory: previous actions in the observation, hidden parts of it.

To stack observations, no wrapper of ours is needed: see ``docs/environments.md``.
"""

from collections.abc import Mapping
from typing import Any, SupportsFloat

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from sb3_ext.common.arguments import read_flag, read_whole
from sb3_ext.common.names import nearest
from sb3_ext.wrappers.base import Recorded
from sb3_ext.wrappers.parameters import parts_of, spaces_with_parts, with_zero

__all__ = ["MaskObservation", "PreviousActions"]


class PreviousActions(gym.Wrapper, Recorded):
    """
    Adds the last actions of the episode to the observation, the latest last; zeros before the first action.

    Discrete actions are one-hot, so zeros mean no action.

    :param env: the environment
    :param horizon: number of actions
    :param key: name of a new entry of a Dict. Without it, actions are appended to a vector, or become the entry
        "previous_actions" of a Dict. With it, any other observation becomes the entry "observation" of a Dict.
    """

    def __init__(self, env: gym.Env, horizon: int = 1, key: str | None = None) -> None:
        super().__init__(env)
        horizon = read_whole("horizon", horizon, at_least=1)
        space = env.observation_space
        if isinstance(space, spaces.Dict):
            key = key or "previous_actions"
        elif key is None and not (isinstance(space, spaces.Box) and len(space.shape) == 1):
            raise ValueError(
                f"Actions can only be appended to a vector, but the observation is {space}. Set key, such as "
                "previous_actions, to make it a Dict (with MultiInputPolicy)."
            )
        self._key = key
        # As in the vector they are appended to, if its numbers are floats
        keeps_dtype = key is None and np.issubdtype(space.dtype, np.floating)
        actions = _flat_space(env.action_space, horizon, space.dtype if keeps_dtype else np.dtype(np.float32))
        self._history = np.zeros((horizon, actions.shape[0] // horizon), actions.dtype)
        self.observation_space = self._extended(space, actions)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        observation, info = self.env.reset(seed=seed, options=options)
        self._history[:] = 0
        return self._add_history(observation), info

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        # First: the environment may change the action's array
        self._history[:-1] = self._history[1:]
        self._history[-1] = np.asarray(spaces.flatten(self.env.action_space, action))
        observation, reward, terminated, truncated, info = self.env.step(action)
        return self._add_history(observation), reward, terminated, truncated, info

    def _add_history(self, observation: Any) -> Any:
        history = self._history.ravel().copy()
        if self._key is None:
            return np.concatenate([observation, history]).astype(self._history.dtype, copy=False)
        entries = observation if isinstance(self.env.observation_space, spaces.Dict) else {"observation": observation}
        return {**entries, self._key: history}

    def _extended(self, space: spaces.Space, actions: spaces.Box) -> spaces.Space:
        if self._key is None:
            assert isinstance(space, spaces.Box) and actions.dtype is not None
            low, high = np.concatenate([space.low, actions.low]), np.concatenate([space.high, actions.high])
            return spaces.Box(low.astype(actions.dtype), high.astype(actions.dtype), dtype=actions.dtype.type)
        entries = dict(space.spaces) if isinstance(space, spaces.Dict) else {"observation": space}
        if self._key in entries:
            raise ValueError(f"key={self._key!r} is already an entry of the observation: {sorted(entries)}.")
        return spaces.Dict({**entries, self._key: actions})


class MaskObservation(gym.ObservationWrapper, Recorded):
    """
    Hides parts of the observation, such as the velocities.

    :param env: the environment
    :param hide: for a vector: a list of indices and slices such as "2:4"; for a Dict: a list of its keys, or a dict
        with indices for each key
    :param remove: leave the parts out; otherwise they are zeros, and the space stays the same
    """

    def __init__(self, env: gym.Env, hide: Any, remove: bool = False) -> None:
        super().__init__(env)
        self._remove = read_flag("remove", remove)
        parts = parts_of(env.observation_space)
        hidden = {key: _read_mask(indices, parts[key]) for key, indices in _read_keys(hide, parts).items()}
        if not any(key not in hidden or not np.all(hidden[key]) for key in parts):
            raise ValueError(f"hide={hide!r} leaves nothing to see of {env.observation_space}.")
        self._seen = {key: ~mask for key, mask in hidden.items()}
        # Entries of a Dict that are left out
        self._gone = {key for key, mask in hidden.items() if self._remove and np.all(mask)}
        changed = {key: self._masked_space(parts[key], seen) for key, seen in self._seen.items()}
        space = spaces_with_parts(env.observation_space, changed)
        if isinstance(space, spaces.Dict):
            space = spaces.Dict({key: part for key, part in space.spaces.items() if key not in self._gone})
        self.observation_space = space

    def observation(self, observation: Any) -> Any:
        if None in self._seen:
            return self._masked(observation, self._seen[None])
        return {
            key: self._masked(value, self._seen[key]) if key in self._seen else value
            for key, value in observation.items()
            if key not in self._gone
        }

    def _masked(self, value: np.ndarray, seen: np.ndarray) -> np.ndarray:
        return value[seen] if self._remove else np.where(seen, value, np.zeros_like(value))

    def _masked_space(self, space: spaces.Space, seen: np.ndarray) -> spaces.Space:
        if not self._remove:
            if not isinstance(space, (spaces.Box, spaces.MultiBinary)):
                raise ValueError(f"{space} has no zero to show instead: use remove=True.")
            return with_zero(space)
        if not seen.any():
            return space  # is left out
        assert isinstance(space, spaces.Box) and space.dtype is not None
        return spaces.Box(space.low[seen], space.high[seen], dtype=space.dtype.type)


def _flat_space(action_space: spaces.Space, horizon: int, dtype: Any) -> spaces.Box:
    if not action_space.is_np_flattenable:
        raise ValueError(f"Actions in {action_space} can't be flattened into a vector.")
    flat = with_zero(spaces.flatten_space(action_space))
    assert isinstance(flat, spaces.Box)
    low, high = (np.tile(bound, horizon).astype(dtype) for bound in (flat.low, flat.high))
    return spaces.Box(low, high, dtype=dtype.type)


def _read_keys(hide: Any, parts: Mapping[str | None, spaces.Space]) -> dict[str | None, Any]:
    if None in parts:
        if isinstance(hide, Mapping):
            raise ValueError(f"hide={hide!r} names the entries of a Dict, but the observation is {parts[None]}.")
        return {None: hide}
    raw = dict(hide) if isinstance(hide, Mapping) else {key: ":" for key in _as_list(hide)}
    for key in raw:
        if key not in parts:
            raise ValueError(f"hide: the observation has no entry {key!r}: {nearest(str(key), [*map(str, parts)])}")
    return raw


def _read_mask(indices: Any, space: spaces.Space) -> np.ndarray:
    """Which numbers of an array are hidden."""
    if indices == ":":
        return np.ones(space.shape or (), dtype=bool)
    if not isinstance(space, spaces.Box) or len(space.shape) != 1:
        raise ValueError(f"hide={indices!r} are indices of a vector, but this is {space}.")
    mask = np.zeros(space.shape, dtype=bool)
    for index in _as_list(indices):
        try:
            mask[_read_index(index, len(mask))] = True
        except (IndexError, TypeError, ValueError):
            raise ValueError(
                f'hide: {index!r} is not an index of a vector of {space.shape[0]} numbers, nor a slice such as "2:4".'
            ) from None
    if not mask.any():
        raise ValueError(f"hide={indices!r} hides nothing of {space}.")
    return mask


def _read_index(index: Any, size: int) -> int | slice:
    if isinstance(index, str) and ":" in index:
        bounds = [int(part) if part.strip() else None for part in index.split(":")]
        if any(bound is not None and abs(bound) > size for bound in bounds[:2]):
            raise IndexError
        return slice(*bounds)
    if isinstance(index, bool) or not isinstance(index, (int, np.integer)):
        raise TypeError
    return int(index)


def _as_list(raw: Any) -> list[Any]:
    return list(raw) if isinstance(raw, (list, tuple)) else [raw]
