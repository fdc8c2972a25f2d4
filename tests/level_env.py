"""An environment whose reward is its level, so that a score tells which variant of it was played."""

import gymnasium as gym
import numpy as np
from gymnasium import spaces

__all__ = ["LEVEL_ENV", "LevelEnv"]

LEVEL_ENV = "Level-v0"


class LevelEnv(gym.Env):
    """
    :param level: reward of each step, to which the attribute ``bonus`` is added
    :param length: steps of an episode; the reset option ``start`` counts as steps that are over
    :param n_actions: for another action space
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 30}  # noqa: RUF012

    def __init__(self, level: float = 0.0, length: int = 4, n_actions: int = 2, render_mode: str | None = None) -> None:
        self.level = level
        self.bonus = 0.0
        self.closed = False
        self.render_mode = render_mode
        self._length = length
        self.observation_space = spaces.Box(0.0, 1.0, (2,), np.float32)
        self.action_space = spaces.Discrete(n_actions)

    def set_level(self, level):
        self.level = level

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._step = (options or {}).get("start", 0)
        return self._observe(), {}

    def step(self, action):
        self._step += 1
        return self._observe(), self.level + self.bonus, self._step >= self._length, False, {}

    def render(self):
        return np.full((4, 4, 3), int(self.level), np.uint8)

    def close(self):
        self.closed = True

    def _observe(self):
        return self.np_random.random(2, dtype=np.float32)


if LEVEL_ENV not in gym.registry:
    gym.register(LEVEL_ENV, entry_point="level_env:LevelEnv")
    gym.register("OtherLevel-v0", entry_point="level_env:LevelEnv", kwargs={"level": 50.0})
