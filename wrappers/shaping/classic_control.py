"""Shapers for CartPole, MountainCar and Acrobot.

They use the environment's state, not the observation, so noise and other wrappers make no difference.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar

from gymnasium.envs.classic_control import AcrobotEnv, CartPoleEnv, Continuous_MountainCarEnv, MountainCarEnv

from sb3_ext.wrappers.shaping.potential import PotentialShaping
from sb3_ext.wrappers.shaping.terms import RewardTerms, Step

__all__ = ["AcrobotPotential", "AcrobotShaping", "CartPoleShaping", "MountainCarPotential", "MountainCarShaping"]


class CartPoleShaping(RewardTerms):
    """
    Penalties for CartPole, from -1 to 0: with weights of up to 1 in sum, no step costs more than it earns.

    Terms: ``centring``, how far the cart is from the middle; ``angle``, how far the pole is from upright; both as
    shares of where an episode ends.
    """

    default_terms: ClassVar[Mapping[str, float]] = {"centring": 0.5}
    made_for = (CartPoleEnv,)

    def term_centring(self, step: Step) -> float:
        env: Any = self.unwrapped
        return -abs(env.state[0]) / env.x_threshold

    def term_angle(self, step: Step) -> float:
        env: Any = self.unwrapped
        return -abs(env.state[2]) / env.theta_threshold_radians


class MountainCarShaping(RewardTerms):
    """
    Bonuses for MountainCar-v0 and MountainCarContinuous-v0, from 0 to 1.

    Terms: ``height`` of the car on its hill; ``velocity``, its speed as a share of the maximum. In MountainCar-v0,
    where a step costs 1, arriving early stays best with weights of up to 1 in sum.
    """

    default_terms: ClassVar[Mapping[str, float]] = {"height": 0.5}
    made_for = (MountainCarEnv, Continuous_MountainCarEnv)

    def term_height(self, step: Step) -> float:
        return _car_height(self.unwrapped)

    def term_velocity(self, step: Step) -> float:
        return _car_speed(self.unwrapped)


class MountainCarPotential(PotentialShaping):
    """The terms of :class:`MountainCarShaping` as potentials: ``height`` and ``velocity``."""

    default_terms: ClassVar[Mapping[str, float]] = {"height": 10.0, "velocity": 10.0}
    made_for = (MountainCarEnv, Continuous_MountainCarEnv)

    def potential_height(self, observation: Any, info: dict[str, Any]) -> float:
        return _car_height(self.unwrapped)

    def potential_velocity(self, observation: Any, info: dict[str, Any]) -> float:
        return _car_speed(self.unwrapped)


class AcrobotShaping(RewardTerms):
    """The term ``height`` for Acrobot: of the tip, from 0 (hanging) to 1 (upright); the goal is at 0.75."""

    default_terms: ClassVar[Mapping[str, float]] = {"height": 0.5}
    made_for = (AcrobotEnv,)

    def term_height(self, step: Step) -> float:
        return _tip_height(self.unwrapped)


class AcrobotPotential(PotentialShaping):
    """The term of :class:`AcrobotShaping` as a potential: ``height``."""

    default_terms: ClassVar[Mapping[str, float]] = {"height": 10.0}
    made_for = (AcrobotEnv,)

    def potential_height(self, observation: Any, info: dict[str, Any]) -> float:
        return _tip_height(self.unwrapped)


def _car_height(env: Any) -> float:
    return 0.5 + 0.5 * math.sin(3.0 * env.state[0])


def _car_speed(env: Any) -> float:
    return abs(float(env.state[1])) / env.max_speed


def _tip_height(env: Any) -> float:
    first, second = env.state[0], env.state[1]
    return 0.5 - 0.25 * (math.cos(first) + math.cos(first + second))
