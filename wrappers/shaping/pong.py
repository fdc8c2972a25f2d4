"""A shaper for Pong. It reads positions from the emulator's RAM, whatever the agent observes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import gymnasium as gym

from sb3_ext.wrappers.shaping.terms import RewardTerms, Step

__all__ = ["PongShaping"]

#: Addresses in Pong's RAM. The agent has the right paddle; the ball's y is 0 while there is no ball
_BALL_X, _PADDLE_Y, _BALL_Y = 49, 51, 54
#: RAM has the lower ends of paddle (16 lines) and ball (4 lines). If they are equal, the middles are this far apart
_MIDDLES = 6
_FIELD_HEIGHT = 160


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
