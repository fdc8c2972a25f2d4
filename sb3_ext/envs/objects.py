"""Atari games whose observations are the positions and velocities of their objects, read from the emulator's RAM."""

from __future__ import annotations

from typing import Any, Literal

import ale_py
import numpy as np
from ale_py.env import AtariEnv
from gymnasium import spaces
from gymnasium.utils import EzPickle

from sb3_ext.common.arguments import read_flag
from sb3_ext.common.names import check_choice, checked_keywords
from sb3_ext.envs.object_games import OBJECT_GAMES
from sb3_ext.envs.object_reader import ObjectReader

__all__ = ["AtariObjectsEnv"]

_FRAMES_PER_SECOND = 60


class AtariObjectsEnv(AtariEnv):
    """
    The game, its actions, rewards and episodes are those of ale-py. The observation is a vector of numbers in [-1, 1].

    Each object has five: its position (x, y), its movement since the last step (vx, vy), and whether it is there. All
    are zero for an object that is not there. One that has just appeared or jumped has no movement. ``feature_names``
    names all numbers.

    :param game: one of ``OBJECT_GAMES``
    :param frameskip: frames per action, or the range they are drawn from, without its end
    :param previous_action: add the last action, one-hot
    :param relative: add the positions of some objects relative to others (the ball to the paddle), finest when they are
        near
    :param noop_max: most random frames without action at the start of an episode
    :param fire_reset: press fire at the start of each life; ``None``: in games that wait for it
    """

    @checked_keywords
    def __init__(
        self,
        game: str,
        frameskip: int | tuple[int, int] = 4,
        previous_action: bool = False,
        relative: bool = True,
        noop_max: int = 30,
        fire_reset: bool | None = None,
        *,
        mode: int | None = None,
        difficulty: int | None = None,
        repeat_action_probability: float = 0.25,
        full_action_space: bool = False,
        max_num_frames_per_episode: int | None = None,
        render_mode: Literal["human", "rgb_array"] | None = None,
    ) -> None:
        check_choice("game", game, OBJECT_GAMES)
        layout = OBJECT_GAMES[game]
        if isinstance(frameskip, list):  # YAML has no tuples
            frameskip = tuple(frameskip)
        if isinstance(noop_max, bool) or not isinstance(noop_max, int) or noop_max < 0:
            raise ValueError(f"noop_max={noop_max!r} must be a whole number from 0 on.")
        if not 0 <= repeat_action_probability <= 1:
            raise ValueError(f"repeat_action_probability={repeat_action_probability!r} must be between 0 and 1.")
        own = {"previous_action": previous_action, "relative": relative, "noop_max": noop_max, "fire_reset": fire_reset}
        self._has_previous_action = read_flag("previous_action", previous_action)
        self._fires = layout.fire_reset if fire_reset is None else read_flag("fire_reset", fire_reset)
        stock: dict[str, Any] = {
            "frameskip": frameskip,
            "mode": mode,
            "difficulty": difficulty,
            "repeat_action_probability": repeat_action_probability,
            "full_action_space": full_action_space,
            "max_num_frames_per_episode": max_num_frames_per_episode,
            "render_mode": render_mode,
        }
        super().__init__(layout.rom, obs_type="ram", **stock)
        EzPickle.__init__(self, game=game, **own, **stock)
        self._noop_max = noop_max
        self._longest_skip = frameskip if isinstance(frameskip, int) else frameskip[1] - 1
        self.metadata = {**self.metadata, "render_fps": max(_FRAMES_PER_SECOND // self._longest_skip, 1)}
        self._reader = ObjectReader(layout, self._longest_skip, read_flag("relative", relative))
        actions = [f"last action {name}" for name in self.get_action_meanings()] if self._has_previous_action else []
        self.feature_names = (*self._reader.feature_names, *actions)
        self._n_features = len(self.feature_names)
        self.observation_space = spaces.Box(-1.0, 1.0, (self._n_features,), np.float32)
        self._lives = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, Any]:
        _, reset_info = super().reset(seed=seed, options=options)
        for _ in range(self.np_random.integers(self._noop_max + 1)):
            self.ale.act(ale_py.Action.NOOP)
        if self._fires:
            self._press_fire()
        info: dict[str, Any] = {**reset_info, **self._frames()}
        self._lives = info["lives"]
        self._reader.forget()
        return self._observe(self.ale.getRAM()), info

    def step(self, action: int | np.ndarray) -> tuple[np.ndarray, float, bool, bool, Any]:
        info: Any
        ram, reward, terminated, truncated, info = super().step(action)
        if self._fires and info["lives"] < self._lives and not terminated:
            reward += self._press_fire()
            ram, info = self.ale.getRAM(), self._frames()
        self._lives = info["lives"]
        return self._observe(ram, int(action)), reward, terminated, truncated, info

    def positions(self) -> dict[str, tuple[float, float]]:
        """The pixel at the centre of each object that is there."""
        return self._reader.positions(self.ale.getRAM())

    def _observe(self, ram: np.ndarray, last_action: int | None = None) -> np.ndarray:
        observation = np.zeros(self._n_features, dtype=np.float32)
        self._reader.read(ram, observation)
        if self._has_previous_action and last_action is not None:
            observation[last_action - len(self._action_set)] = 1.0
        return observation

    def _press_fire(self) -> float:
        return sum(self.ale.act(ale_py.Action.FIRE) for _ in range(self._longest_skip))

    def _frames(self) -> dict[str, int]:
        return {
            "lives": self.ale.lives(),
            "episode_frame_number": self.ale.getEpisodeFrameNumber(),
            "frame_number": self.ale.getFrameNumber(),
        }
