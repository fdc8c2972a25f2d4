"""Action masks for MaskablePPO from what an environment says in its info."""

from __future__ import annotations

from typing import Any, SupportsFloat

import gymnasium as gym
import numpy as np

__all__ = ["ActionMaskFromInfo"]


class ActionMaskFromInfo(gym.Wrapper):
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
        """:return: which actions are possible now"""
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
                f"{self.env} puts no {self._key!r} into its info, only {sorted(info)}: it can't be used with "
                "ActionMaskFromInfo, unless its mask has another key."
            )
        self._mask = np.asarray(info[self._key], dtype=bool)
