"""Shapers for CartPole, MountainCar, Acrobot, Pong and Taxi.

They use the environment's state or RAM, not the observation, so noise and other wrappers make no difference.
"""

import math
from collections.abc import Mapping
from functools import cached_property
from typing import Any, ClassVar

import gymnasium as gym
import numpy as np
from gymnasium.envs.classic_control import AcrobotEnv, CartPoleEnv, Continuous_MountainCarEnv, MountainCarEnv
from gymnasium.envs.toy_text.taxi import TaxiEnv

from sb3_ext.wrappers.shaping.potential import PotentialShaping
from sb3_ext.wrappers.shaping.terms import RewardTerms, Step

__all__ = [
    "AcrobotPotential",
    "AcrobotShaping",
    "CartPoleShaping",
    "MountainCarPotential",
    "MountainCarShaping",
    "PongShaping",
    "TaxiPotential",
    "TaxiShaping",
    "steps_to_go",
]

#: Addresses in Pong's RAM. The agent has the right paddle; the ball's y is 0 while there is no ball
_BALL_X, _PADDLE_Y, _BALL_Y = 49, 51, 54
#: RAM has the lower ends of paddle (16 lines) and ball (4 lines). If they are equal, the middles are this far apart
_MIDDLES = 6
_FIELD_HEIGHT = 160


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


class PongShaping(RewardTerms):
    """
    Terms: ``near_ball``, from 0 to 1, how close the agent's paddle is to the height of the ball; 0 without a ball.
    ``hit``: 1 for a step in which the agent's paddle returned the ball.

    In a config it comes after ``AtariWrapper``, which clips rewards.
    """

    default_terms: ClassVar[Mapping[str, float]] = {"hit": 0.1}

    def __init__(self, env: gym.Env, terms: Mapping[str, float] | None = None) -> None:
        super().__init__(env, terms)
        game = getattr(env.unwrapped, "_game", None)
        if game != "pong" or not hasattr(env.unwrapped, "ale"):
            raise ValueError(f"PongShaping is for ale-py's Pong, not for {env}.")
        self._ball_x: int | None = None
        self._comes_near = False

    def begin_episode(self, observation: Any, info: dict[str, Any]) -> None:
        self._forget_ball()

    def term_near_ball(self, step: Step) -> float:
        ram = self._ram()
        ball = int(ram[_BALL_Y])
        if ball == 0:
            return 0.0
        return max(0.0, 1.0 - abs(ball - int(ram[_PADDLE_Y]) - _MIDDLES) / _FIELD_HEIGHT)

    def term_hit(self, step: Step) -> float:
        ram = self._ram()
        if ram[_BALL_Y] == 0:
            self._forget_ball()
            return 0.0
        before, self._ball_x = self._ball_x, int(ram[_BALL_X])
        if before is None or before == self._ball_x:
            return 0.0
        came_near, self._comes_near = self._comes_near, self._ball_x > before
        # A ball that approached the agent and no longer does was hit. A missed one goes on to the end
        return float(came_near and not self._comes_near)

    def _forget_ball(self) -> None:
        self._ball_x = None
        self._comes_near = False

    def _ram(self) -> Any:
        env: Any = self.unwrapped
        return env.ale.getRAM()


class _TaxiDistance(gym.Wrapper):
    @cached_property
    def _distances(self) -> list[float]:
        steps = steps_to_go(self.unwrapped)
        return (-steps / steps.max()).tolist()

    def _distance(self) -> float:
        env: Any = self.unwrapped
        return self._distances[env.s]


class TaxiShaping(_TaxiDistance, RewardTerms):
    """The term ``distance`` for Taxi: minus the remaining steps, as a share of the longest way."""

    default_terms: ClassVar[Mapping[str, float]] = {"distance": 1.0}
    made_for = (TaxiEnv,)

    def term_distance(self, step: Step) -> float:
        return self._distance()


class TaxiPotential(_TaxiDistance, PotentialShaping):
    """
    The term of :class:`TaxiShaping` as a potential. With the default weight, a step in the right direction earns about
    as much as a step costs.
    """

    default_terms: ClassVar[Mapping[str, float]] = {"distance": 20.0}
    made_for = (TaxiEnv,)

    def potential_distance(self, observation: Any, info: dict[str, Any]) -> float:
        return self._distance()


def _car_height(env: Any) -> float:
    return 0.5 + 0.5 * math.sin(3.0 * env.state[0])


def _car_speed(env: Any) -> float:
    return abs(float(env.state[1])) / env.max_speed


def _tip_height(env: Any) -> float:
    first, second = env.state[0], env.state[1]
    return 0.5 - 0.25 * (math.cos(first) + math.cos(first + second))


def steps_to_go(taxi: Any) -> np.ndarray:
    """The smallest number of actions that deliver the passenger, for each state."""
    # In the rain there are several outcomes, the intended one first
    outcomes = [[outcomes[0] for outcomes in actions.values()] for actions in taxi.P.values()]
    after = np.array([[state for _, state, _, _ in row] for row in outcomes])
    delivers = np.array([[ended for *_, ended in row] for row in outcomes])
    steps = np.full(len(after), len(after))
    while np.any(steps != (fewer := 1 + np.where(delivers, 0, steps[after]).min(axis=1))):
        steps = fewer
    steps[after[delivers]] = 0
    return steps
