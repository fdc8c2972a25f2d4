"""Which actions an agent can choose: masks for MaskablePPO, and a smaller set of actions."""

from collections.abc import Callable
from typing import Any, SupportsFloat

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from sb3_ext.common.names import nearest
from sb3_ext.wrappers.base import Recorded

__all__ = ["ActionMaskFromInfo", "RemapActions"]


class ActionMaskFromInfo(gym.Wrapper, Recorded):
    """
    Gives MaskablePPO the mask that an environment puts into its info, as Taxi does.

    :param env: the environment
    :param key: where the mask is in the info
    """

    def __init__(self, env: gym.Env, key: str = "action_mask") -> None:
        super().__init__(env)
        self._key = key
        self._mask: np.ndarray | None = None

    def action_masks(self) -> np.ndarray:
        """Which actions are possible now."""
        assert self._mask is not None, "action_masks() was called before reset()"
        return self._mask

    def reset(self, **kwargs: Any) -> tuple[Any, dict[str, Any]]:
        observation, info = self.env.reset(**kwargs)
        self._remember(info)
        return observation, info

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = self.env.step(action)
        self._remember(info)
        return observation, reward, terminated, truncated, info

    def _remember(self, info: dict[str, Any]) -> None:
        if self._key not in info:
            raise ValueError(
                f"ActionMaskFromInfo: the info of {self.env} has no {self._key!r}, only {sorted(info)}. "
                "If the mask has another name, set key."
            )
        self._mask = np.asarray(info[self._key], dtype=bool)


class RemapActions(gym.ActionWrapper, Recorded):
    """
    Lets the agent choose among some actions of the environment. Its own actions are indices into their list.

    :param env: an environment with Discrete, MultiDiscrete, MultiBinary or Box actions
    :param actions: numbers of Discrete actions, or names such as "NOOP" if the environment has
        ``get_action_meanings()``, as Atari games do; lists of numbers for the other spaces
    """

    def __init__(self, env: gym.Env, actions: list[Any]) -> None:
        super().__init__(env)
        known = (spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary, spaces.Box)
        if not isinstance(env.action_space, known):
            raise ValueError(f"RemapActions can't be used for actions in {env.action_space}.")
        if not isinstance(actions, (list, tuple)) or not actions:
            raise ValueError(f"actions={actions!r} must be a list of actions.")
        self._actions = [_read_action(action, env) for action in actions]
        for index, action in enumerate(self._actions):
            if any(np.array_equal(action, other) for other in self._actions[:index]):
                raise ValueError(f"actions={actions!r} contains {actions[index]!r} twice.")
        self.action_space = spaces.Discrete(len(actions))

    def action(self, action: Any) -> Any:
        # A copy, since the environment may change it
        return np.copy(self._actions[int(action)])[()]

    @property
    def get_action_meanings(self) -> Callable[[], list[str]]:
        """The names of the listed actions, if the environment has names."""
        names = self.env.get_wrapper_attr("get_action_meanings")()
        start = getattr(self.env.action_space, "start", 0)
        return lambda: [names[int(action) - start] for action in self._actions]

    @property
    def action_masks(self) -> Callable[[], np.ndarray]:
        """Which of the listed actions are possible now, if the environment has masks."""
        masks = self.env.get_wrapper_attr("action_masks")
        if not isinstance(self.env.action_space, spaces.Discrete):
            raise AttributeError("The mask is per part of an action, and doesn't say which whole actions are possible.")
        chosen = np.array(self._actions) - self.env.action_space.start
        return lambda: np.asarray(masks())[chosen]


def _read_action(raw: Any, env: gym.Env) -> np.ndarray:
    space = env.action_space
    if isinstance(raw, str) and isinstance(space, spaces.Discrete):
        raw = _read_name(raw, env) + space.start
    try:
        action = np.asarray(raw)
        if not np.can_cast(action.dtype, space.dtype, "same_kind") or isinstance(raw, bool):  # type: ignore[arg-type]
            raise TypeError
        action = action.astype(space.dtype)
        fits = space.contains(action[()])
    except (TypeError, ValueError, OverflowError):
        fits = False
    if not fits:
        raise ValueError(f"actions: {raw!r} is not an action in {space}.")
    return action


def _read_name(name: str, env: gym.Env) -> int:
    meanings: list[str] = getattr(env.unwrapped, "get_action_meanings", list)()
    if not meanings:
        raise ValueError(f"actions: {env.unwrapped} has no names for its actions, such as {name!r}: use numbers.")
    if name not in meanings:
        raise ValueError(f"actions: {env.unwrapped} has no action {name!r}: {nearest(name, meanings)}")
    return meanings.index(name)
