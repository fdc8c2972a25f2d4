"""A smaller set of actions: some of a discrete environment's, or some vectors of a continuous one's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from sb3_ext.common.names import nearest
from sb3_ext.wrappers.parameters import checked_keywords

__all__ = ["RemapActions"]


class RemapActions(gym.ActionWrapper, gym.utils.RecordConstructorArgs):
    """
    Lets the agent choose among some actions of the environment: its actions are their indices in a list.

    :param env: an environment with Discrete, MultiDiscrete, MultiBinary or Box actions
    :param actions: a list of actions: numbers of Discrete ones, or names such as "NOOP" where the environment has
        ``get_action_meanings()`` as Atari games have; lists of numbers for the other spaces
    """

    @checked_keywords
    def __init__(self, env: gym.Env, actions: list[Any]) -> None:
        gym.utils.RecordConstructorArgs.__init__(self, actions=actions)
        gym.ActionWrapper.__init__(self, env)
        known = (spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary, spaces.Box)
        if not isinstance(env.action_space, known):
            raise ValueError(f"RemapActions can't be used for actions in {env.action_space}.")
        if not isinstance(actions, (list, tuple)) or not actions:
            raise ValueError(f"actions={actions!r} must be a list of actions.")
        self._actions = [_read_action(action, env) for action in actions]
        for index, action in enumerate(self._actions):
            if any(np.array_equal(action, other) for other in self._actions[:index]):
                raise ValueError(f"actions={actions!r} has {actions[index]!r} twice.")
        self.action_space = spaces.Discrete(len(actions))

    def action(self, action: Any) -> Any:
        # Arrays as copies, as the environment may change what it gets
        return np.copy(self._actions[int(action)])[()]

    @property
    def get_action_meanings(self) -> Callable[[], list[str]]:
        """Where the environment's actions have names: those of the list."""
        names = self.env.get_wrapper_attr("get_action_meanings")()
        start = getattr(self.env.action_space, "start", 0)
        return lambda: [names[int(action) - start] for action in self._actions]

    @property
    def action_masks(self) -> Callable[[], np.ndarray]:
        """For MaskablePPO, where the environment has masks: which of the list's actions are possible now."""
        masks = self.env.get_wrapper_attr("action_masks")
        if not isinstance(self.env.action_space, spaces.Discrete):
            raise AttributeError("Masks are for each part of an action, and can't tell which actions are possible.")
        chosen = np.array(self._actions) - self.env.action_space.start
        return lambda: np.asarray(masks())[chosen]


def _read_action(written: Any, env: gym.Env) -> np.ndarray:
    space = env.action_space
    if isinstance(written, str) and isinstance(space, spaces.Discrete):
        written = _read_name(written, env) + space.start
    try:
        action = np.asarray(written)
        if not np.can_cast(action.dtype, space.dtype, "same_kind") or isinstance(written, bool):  # type: ignore[arg-type]
            raise TypeError
        action = action.astype(space.dtype)
        fits = space.contains(action[()])
    except (TypeError, ValueError, OverflowError):
        fits = False
    if not fits:
        raise ValueError(f"actions: {written!r} is no action of {space}.")
    return action


def _read_name(name: str, env: gym.Env) -> int:
    meanings: list[str] = getattr(env.unwrapped, "get_action_meanings", list)()
    if not meanings:
        raise ValueError(f"actions: {name!r} is a name, and {env.unwrapped} has none for its actions: use numbers.")
    if name not in meanings:
        raise ValueError(f"actions: {env.unwrapped} has no action {name!r}: {nearest(name, meanings)}")
    return meanings.index(name)
