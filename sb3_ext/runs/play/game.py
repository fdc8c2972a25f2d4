"""A game on a screen: an agent plays, random actions, or a person with keys, who can take over from the agent."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from gymnasium import spaces
from stable_baselines3.common.vec_env import VecEnv
from stable_baselines3.common.vec_env.base_vec_env import VecEnvObs

from sb3_ext.runs.play.episode_table import Step
from sb3_ext.runs.play.keys import KeyMap
from sb3_ext.runs.play.labels import action_labels
from sb3_ext.runs.play.policy_probe import ActionDetails, PolicyProbe

__all__ = ["Game", "Screen", "Status"]

#: Seconds after the last key until the agent plays again
_RETURN_AFTER = 1.0


@dataclass(frozen=True)
class Status:
    """What a screen says about the game. ``player``: who chose the action: you, agent or random."""

    player: str
    score: float = 0.0
    step: int = 0
    action: str = ""
    value: float = math.nan
    is_over: bool = False

    def __str__(self) -> str:
        action = f"  action {self.action}" if self.action else ""
        value = f"  value {self.value:.2f}" if math.isfinite(self.value) else ""
        over = "  the episode is over" if self.is_over else ""
        return f"{self.player}: score {self.score:,.6g}  step {self.step:,}{action}{value}{over}"


class Screen(Protocol):
    """Shows a game and reads keys."""

    def show(self, observations: VecEnvObs | None, status: Status) -> None:
        """:param observations: of the agent; ``None`` when the episode is over"""

    def held_keys(self, wait: bool) -> Collection[str]:
        """
        Keys that are held now, at the pace of the game.

        :param wait: until a key is pressed
        :raises Stopped: when the person wants to end the game
        """


class Game:
    """
    An actor for :func:`~sb3_ext.runs.play.episode_table.play_episode`, with its ``watch``.

    :param env: with one environment
    :param agent: plays while no key is pressed; without it, the person plays
    :param is_random: random actions instead
    :param fps: steps per second
    :param waits: each of the person's steps waits for a key
    """

    def __init__(
        self,
        env: VecEnv,
        screen: Screen,
        keys: KeyMap | None,
        agent: PolicyProbe | None = None,
        is_random: bool = False,
        fps: float = 30.0,
        waits: bool = False,
    ) -> None:
        self._space = env.action_space
        self._labels = action_labels(env)
        self._screen, self._keys, self._agent = screen, keys, agent
        self._is_random = is_random
        self._waits = waits and agent is None and not is_random
        self._fps = fps
        self.uses_masks = isinstance(self._space, spaces.Discrete) if agent is None else agent.uses_masks
        self.gamma, self.gae_lambda = (1.0, 1.0) if agent is None else (agent.gamma, agent.gae_lambda)
        #: Steps for which the person still plays
        self._control = 0.0 if agent is not None or is_random else math.inf
        self._last: np.ndarray | None = None
        self._status = Status(self._player)

    @property
    def _player(self) -> str:
        return "you" if self._control > 0 else "random" if self._is_random else "agent"

    def act(self, observations: VecEnvObs, masks: np.ndarray | None = None) -> ActionDetails:
        self._screen.show(observations, self._status)
        held = self._screen.held_keys(wait=self._waits)
        meant = None if self._keys is None else self._keys.action(held)
        while self._waits and meant is None:
            held = self._screen.held_keys(wait=True)
            meant = None if self._keys is None else self._keys.action(held)
        details = self._others(observations, masks)
        if not self._is_random and meant is not None and math.isfinite(self._control):
            self._control = round(_RETURN_AFTER * self._fps) + 1
        if self._control > 0:
            self._control -= 1
            self._last = self._idle() if meant is None else meant
            # How likely the agent finds the person's action is another number than that of its own
            details = replace(details, actions=self._last[None], log_prob=math.nan)
        self._status = replace(
            self._status, player=self._player, action=self._text(details.actions[0]), value=details.value
        )
        return details

    def _others(self, observations: VecEnvObs, masks: np.ndarray | None) -> ActionDetails:
        """What is done without a person; an agent with a memory must see every step."""
        if self._agent is not None:
            return self._agent.act(observations, masks)
        if isinstance(self._space, spaces.Discrete) and masks is not None:
            action = self._space.sample(masks[0].astype(np.int8))
        else:
            action = self._space.sample()
        return ActionDetails(np.asarray(action)[None])

    def _idle(self) -> np.ndarray:
        """Where each action does something, the last one goes on."""
        if self._keys is not None and self._keys.idle is not None:
            return self._keys.idle
        return np.asarray(getattr(self._space, "start", 0)) if self._last is None else self._last

    def start_episodes(self, dones: np.ndarray) -> None:
        if self._agent is not None:
            self._agent.start_episodes(dones)

    def value(self, observations: VecEnvObs) -> float:
        return math.nan if self._agent is None else self._agent.value(observations)

    def watch(self, step: Step) -> None:
        score = self._status.score + step.row["reward"]
        self._status = replace(self._status, score=score, step=step.row["step"] + 1, is_over=step.is_last)
        if step.is_last:
            self._screen.show(None, self._status)

    def _text(self, action: Any) -> str:
        if self._labels:
            return self._labels[int(action)]
        if np.ndim(action) == 0:
            return str(int(action))
        return " ".join(
            f"{number:+.2f}" if isinstance(number, float) else str(number) for number in np.ravel(action).tolist()
        )
