"""Shapers for any environment: numbers from the info, and a penalty for long episodes."""

import warnings
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, ClassVar

import gymnasium as gym
import numpy as np

from sb3_ext.common.arguments import read_whole
from sb3_ext.common.names import nearest
from sb3_ext.wrappers.shaping.terms import RewardTerms, Step

__all__ = ["InfoTerms", "TimePenalty", "find_in_info", "number_keys"]


class InfoTerms(RewardTerms):
    """
    Each term is a number in the info; ``a.b`` is ``info["a"]["b"]``, or ``info["a.b"]`` if it exists.

    A step without it counts 0. If it is missing for a whole episode, a warning says so once.

    :param env: the environment
    :param terms: weights by key
    """

    def __init__(self, env: gym.Env, terms: Mapping[str, float]) -> None:
        keys = [key for key in terms if key != "reward"] if isinstance(terms, Mapping) else []
        super().__init__(env, terms, {key: partial(self._read, key) for key in keys})
        #: Not yet seen in this episode
        self._missing = set(keys)
        self._warned: set[str] = set()

    def begin_episode(self, observation: Any, info: dict[str, Any]) -> None:
        self._missing = {name for name, _, _ in self._terms} - self._warned

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
            raise ValueError(f"InfoTerms: {key!r} is {value!r} in the info, which is not a number.") from None

    def _warn(self, info: dict[str, Any]) -> None:
        numbers = list(number_keys(info))
        for key in sorted(self._missing):
            hint = nearest(key, numbers) if numbers else "no numbers."
            warnings.warn(
                f"InfoTerms: no step of an episode had {key!r} in its info, so it counts 0. The info of the last "
                f"step: {hint}",
                stacklevel=2,
            )
        self._warned |= self._missing
        self._missing = set()


class TimePenalty(RewardTerms):
    """
    The term ``time``: -1 for each step of an episode after the first ones, for agents that hover and never finish.

    :param env: the environment
    :param terms: weights by name; ``{time: 0.1}`` by default
    :param after: number of free steps
    """

    default_terms: ClassVar[Mapping[str, float]] = {"time": 0.1}

    def __init__(self, env: gym.Env, terms: Mapping[str, float] | None = None, after: int = 300) -> None:
        super().__init__(env, terms)
        self._after = read_whole("after", after, at_least=0)
        self._steps = 0

    def begin_episode(self, observation: Any, info: dict[str, Any]) -> None:
        self._steps = 0

    def term_time(self, step: Step) -> float:
        self._steps += 1
        return -1.0 if self._steps > self._after else 0.0


def find_in_info(info: Mapping[str, Any], key: str) -> Any:
    """``a.b`` finds ``info["a"]["b"]``, or ``info["a.b"]`` if it exists; ``None`` if neither does."""
    if key in info:
        return info[key]
    first, _, rest = key.partition(".")
    inner = info.get(first)
    return find_in_info(inner, rest) if rest and isinstance(inner, Mapping) else None


def number_keys(info: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    """Keys of all numbers, with dots for nested ones."""
    for key, value in info.items():
        if isinstance(value, Mapping):
            yield from number_keys(value, f"{prefix}{key}.")
        elif np.ndim(value) == 0 and isinstance(value, (bool, int, float, np.number, np.bool_)):
            yield f"{prefix}{key}"
