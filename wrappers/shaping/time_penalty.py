"""A penalty for episodes that take long, for agents that hover and don't finish, as in LunarLander."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import gymnasium as gym

from sb3_ext.common.arguments import read_number
from sb3_ext.wrappers.shaping.terms import RewardTerms, Step

__all__ = ["TimePenalty"]


class TimePenalty(RewardTerms):
    """
    The term ``time``: -1 for each step of an episode beyond the first ones.

    :param env: the environment
    :param terms: weights by name; ``{time: 0.1}`` by default
    :param after: how many steps of an episode are free
    """

    default_terms: ClassVar[Mapping[str, float]] = {"time": 0.1}

    def __init__(self, env: gym.Env, terms: Mapping[str, float] | None = None, after: int = 300) -> None:
        super().__init__(env, terms)
        self._after = read_number("after", after)
        if not 0 <= self._after < float("inf"):
            raise ValueError(f"after={after!r} must be a number of steps, from 0 on.")
        self._steps = 0

    def begin_episode(self, observation: Any, info: dict[str, Any]) -> None:
        self._steps = 0

    def term_time(self, step: Step) -> float:
        self._steps += 1
        return -1.0 if self._steps > self._after else 0.0
