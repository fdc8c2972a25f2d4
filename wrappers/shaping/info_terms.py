"""Terms from the info: any number that an environment reports can be a part of the reward."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np

from sb3_ext.common.names import nearest
from sb3_ext.wrappers.shaping.terms import RewardTerms, Step

__all__ = ["InfoTerms", "find_in_info", "number_keys"]


class InfoTerms(RewardTerms):
    """
    Each term is a number in the info; ``a.b`` is ``info["a"]["b"]``, or ``info["a.b"]`` where there is one.

    A step whose info doesn't have it counts 0. When a whole episode goes by without it, a warning says so, once.

    :param env: the environment
    :param terms: weights by key
    """

    def __init__(self, env: gym.Env, terms: Mapping[str, float]) -> None:
        keys = [key for key in terms if key != "reward"] if isinstance(terms, Mapping) else []
        super().__init__(env, terms, {key: partial(self._read, key) for key in keys})
        # Those that no step of this episode had yet, and those that were told already
        self._missing = set(keys)
        self._told: set[str] = set()

    def begin_episode(self, observation: Any, info: dict[str, Any]) -> None:
        self._missing = {name for name, _, _ in self._terms} - self._told

    def step(self, action: Any) -> Any:
        result = super().step(action)
        _, _, terminated, truncated, info = result
        if self._missing and (terminated or truncated):
            self._warn(info)
        return result

    def _read(self, key: str, step: Step) -> float:
        value = find_in_info(step.info, key)
        if value is None:
            return 0.0
        self._missing.discard(key)
        try:
            return float(np.asarray(value).item())
        except (TypeError, ValueError):
            raise ValueError(f"InfoTerms: {key!r} is {value!r} in the info, and can't be a term: no number.") from None

    def _warn(self, info: dict[str, Any]) -> None:
        numbers = list(number_keys(info))
        for key in sorted(self._missing):
            hint = nearest(key, numbers) if numbers else "it has no numbers."
            warnings.warn(
                f"InfoTerms: no step of a whole episode had {key!r} in its info, so that it counts 0. In the info of "
                f"the last step, {hint}",
                stacklevel=2,
            )
        self._told |= self._missing
        self._missing = set()


def find_in_info(info: Mapping[str, Any], key: str) -> Any:
    """
    :param info: of a step
    :param key: ``a.b`` is ``info["a"]["b"]``, or ``info["a.b"]`` where there is one
    :return: what is there; ``None`` where there is nothing
    """
    if key in info:
        return info[key]
    first, _, rest = key.partition(".")
    inner = info.get(first)
    return find_in_info(inner, rest) if rest and isinstance(inner, Mapping) else None


def number_keys(info: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    """
    :param info: of a step
    :param prefix: goes before each
    :return: keys of all numbers, those further in with dots
    """
    for key, value in info.items():
        if isinstance(value, Mapping):
            yield from number_keys(value, f"{prefix}{key}.")
        elif np.ndim(value) == 0 and isinstance(value, (bool, int, float, np.number, np.bool_)):
            yield f"{prefix}{key}"
