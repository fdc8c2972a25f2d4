"""An environment that records when it is stepped, for boot.py."""

import os
import time

import gymnasium as gym
import numpy as np
from gymnasium import spaces


class BootEnv(gym.Env):
    """Writes the time of its first and its latest step to a file named by ``BOOT_FILE``."""

    observation_space = spaces.Box(-1, 1, (4,), np.float32)
    action_space = spaces.Discrete(2)

    def __init__(self, render_mode=None):
        self._file = os.environ.get("BOOT_FILE")
        self._first = None

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.np_random.uniform(-1, 1, 4).astype(np.float32), {}

    def step(self, action):
        now = time.time()
        self._first = self._first or now
        if self._file is not None:
            with open(self._file, "w", encoding="utf-8") as file:
                file.write(f"{self._first} {now}")
        return self.np_random.uniform(-1, 1, 4).astype(np.float32), 0.0, False, False, {}


gym.register("Boot-v0", entry_point=BootEnv, max_episode_steps=50)
