"""Shapers for Taxi: how many steps remain, around the walls, to the passenger and then to the destination."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any, ClassVar

import gymnasium as gym
import numpy as np
from gymnasium.envs.toy_text.taxi import TaxiEnv

from sb3_ext.wrappers.shaping.potential import PotentialShaping
from sb3_ext.wrappers.shaping.terms import RewardTerms, Step

__all__ = ["TaxiPotential", "TaxiShaping", "steps_to_go"]

#: The passenger's location in the taxi
_ABOARD = 4


class TaxiShaping(RewardTerms):
    """The term ``distance`` for Taxi: minus the remaining steps, as a share of the longest way."""

    default_terms: ClassVar[Mapping[str, float]] = {"distance": 1.0}
    made_for = (TaxiEnv,)

    def __init__(self, env: gym.Env, terms: Mapping[str, float] | None = None) -> None:
        super().__init__(env, terms)
        self._distances = _distances(self.unwrapped)

    def term_distance(self, step: Step) -> float:
        env: Any = self.unwrapped
        return self._distances[env.s]


class TaxiPotential(PotentialShaping):
    """
    The term of :class:`TaxiShaping` as a potential. With the default weight, a step in the right direction earns about
    as much as a step costs.
    """

    default_terms: ClassVar[Mapping[str, float]] = {"distance": 20.0}
    made_for = (TaxiEnv,)

    def __init__(self, env: gym.Env, terms: Mapping[str, float] | None = None, gamma: float | None = None) -> None:
        super().__init__(env, terms, gamma)
        self._distances = _distances(self.unwrapped)

    def potential_distance(self, observation: Any, info: dict[str, Any]) -> float:
        env: Any = self.unwrapped
        return self._distances[env.s]


def steps_to_go(taxi: Any) -> np.ndarray:
    """The smallest number of actions that deliver the passenger, for each state."""
    ways = [_ways_from(taxi, location) for location in taxi.locs]
    steps = np.zeros(taxi.observation_space.n, int)
    for state in range(len(steps)):
        row, column, passenger, destination = taxi.decode(state)
        here = row, column
        if passenger == _ABOARD:
            steps[state] = ways[destination][here] + 1
        elif passenger != destination:
            steps[state] = ways[passenger][here] + 1 + ways[destination][taxi.locs[passenger]] + 1
    return steps


def _distances(taxi: Any) -> list[float]:
    steps = steps_to_go(taxi)
    return (-steps / steps.max()).tolist()


def _ways_from(taxi: Any, start: tuple[int, int]) -> dict[tuple[int, int], int]:
    """Steps to each place, by breadth-first search."""
    ways = {start: 0}
    queue = deque([start])
    while queue:
        place = queue.popleft()
        for neighbour in _neighbours(taxi, *place):
            if neighbour not in ways:
                ways[neighbour] = ways[place] + 1
                queue.append(neighbour)
    return ways


def _neighbours(taxi: Any, row: int, column: int) -> list[tuple[int, int]]:
    """Places one step away. On the map, walls are between columns, with a colon where there is none."""
    places = [(row + 1, column), (row - 1, column)]
    if taxi.desc[1 + row, 2 * column + 2] == b":":
        places.append((row, column + 1))
    if taxi.desc[1 + row, 2 * column] == b":":
        places.append((row, column - 1))
    return [(r, c) for r, c in places if 0 <= r <= taxi.max_row and 0 <= c <= taxi.max_col]
