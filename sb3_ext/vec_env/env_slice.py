"""Some environments of a vectorised environment, stepped one after the other in one process."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
from stable_baselines3.common.env_util import is_wrapped
from stable_baselines3.common.vec_env.patch_gym import _patch_env

from sb3_ext.vec_env.shared_arrays import SharedArrays

__all__ = ["ACTIONS", "DONES", "OBSERVATION", "REWARDS", "EnvSlice", "StepEvent"]

#: Names of the shared arrays; that of an observation is ``(OBSERVATION, key)``, with a key of SB3's ``obs_space_info``
ACTIONS, DONES, OBSERVATION, REWARDS = "actions", "dones", "observation", "rewards"


class StepEvent(NamedTuple):
    """What a step reports beside observation, reward and done: in most environments, usually nothing."""

    env_index: int
    info: dict[str, Any]
    #: ``None`` within an episode
    reset_info: dict[str, Any] | None


class EnvSlice:
    def __init__(self, first: int) -> None:
        self.first = first
        #: Index of the current environment, to name it if it fails
        self.active = first
        self.envs: list[gym.Env] = []

    def make(self, env_fns: Sequence[Callable[[], gym.Env]]) -> None:
        for index, env_fn in enumerate(env_fns, self.first):
            self.active = index
            self.envs.append(_patch_env(env_fn()))
        if len({id(env.unwrapped) for env in self.envs}) != len(self.envs):
            raise ValueError(
                "Two functions in env_fns returned the same environment. Each call must make a new one, as "
                "`lambda: gym.make(...)` does and `lambda: env` does not."
            )

    def attach(self, arrays: SharedArrays, obs_keys: Iterable[Any]) -> None:
        """Read actions from these arrays and write results to them: a row per environment, not only the slice's."""
        rows = slice(self.first, self.first + len(self.envs))
        self._actions = None if (actions := arrays.get(ACTIONS)) is None else actions[rows]
        self._rewards = arrays[REWARDS][rows]
        self._dones = arrays[DONES][rows]
        self._observations = {key: arrays[OBSERVATION, key][rows] for key in obs_keys}

    def read_actions(self) -> np.ndarray:
        """A copy, since an environment may keep its action for the next step."""
        assert self._actions is not None, "the action space has no array"
        return self._actions.copy()

    def step(self, actions: Sequence[Any] | np.ndarray) -> list[StepEvent]:
        """Returns the infos that are not empty, among them those of ended episodes."""
        events = []
        for row, env in enumerate(self.envs):
            self.active = self.first + row
            obs, reward, terminated, truncated, info = env.step(actions[row])
            self._rewards[row] = reward
            self._dones[row] = done = terminated or truncated
            if done or info:
                info["TimeLimit.truncated"] = truncated and not terminated
                reset_info = None
                if done:
                    info["terminal_observation"] = obs
                    obs, reset_info = env.reset()
                events.append(StepEvent(self.active, info, reset_info))
            self._write_observation(row, obs)
        return events

    def reset(self, seeds: Sequence[int | None], options: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """Empty options are not passed on, since not every ``reset`` takes options."""
        infos = []
        for row, env in enumerate(self.envs):
            self.active = self.first + row
            maybe_options = {"options": options[row]} if options[row] else {}
            obs, info = env.reset(seed=seeds[row], **maybe_options)
            self._write_observation(row, obs)
            infos.append(info)
        return infos

    def call(self, function: str | Callable[..., Any], indices: Iterable[int], *args: Any) -> list[Any]:
        """:param function: takes an environment first; or the name of one of ``_CALLS``"""
        if isinstance(function, str):
            function = _CALLS[function]
        results = []
        for self.active in indices:
            results.append(function(self.envs[self.active - self.first], *args))
        return results

    def close(self) -> None:
        for env in self.envs:
            env.close()

    def _write_observation(self, row: int, obs: Any) -> None:
        for key, array in self._observations.items():
            array[row] = obs if key is None else obs[key]


def _has_attr(env: gym.Env, name: str) -> bool:
    try:
        env.get_wrapper_attr(name)
    except AttributeError:
        return False
    return True


def _call_method(env: gym.Env, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return env.get_wrapper_attr(name)(*args, **kwargs)


_CALLS: dict[str, Callable[..., Any]] = {
    "get_attr": lambda env, name: env.get_wrapper_attr(name),
    "has_attr": _has_attr,
    "set_attr": setattr,
    "env_method": _call_method,
    "is_wrapped": is_wrapped,
    "render": lambda env: env.render(),
}
