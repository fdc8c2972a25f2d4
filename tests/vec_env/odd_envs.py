"""Environments whose state is hard to save."""

import random
import threading

import gymnasium as gym
import numpy as np
from gymnasium import spaces


class OddEnv(gym.Env):
    """Shares objects, refers to itself, and draws random numbers from several sources."""

    observation_space = spaces.Box(-1.0, 1.0, (2,), np.float32)

    def __init__(self):
        self.action_space = spaces.Dict({"a": spaces.Discrete(5)})["a"]
        self.random = random.Random(0)
        self.helper = _Helper(self)
        self.also_helper = self.helper
        self.scale = lambda number: number / 2
        self.scales = [self.scale, {"twice": lambda number: number * 2}]

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        if seed is not None:
            self.random.seed(seed)
        self.steps = 0
        return self._observe(), {}

    def step(self, action):
        self.steps += 1
        self.also_helper.count += int(self.action_space.sample() == action)
        return self._observe(), float(self.helper.draw()), self.steps == 9, False, {}

    def _observe(self):
        return np.array([self.scale(self.np_random.random()), self.scales[1]["twice"](0.1)], np.float32)


class _Helper:
    def __init__(self, env):
        self.env = env
        self.count = 0

    def draw(self):
        return self.env.random.random() + self.count


class Simulator:
    """In C, so to say: it can't be pickled."""

    def __init__(self):
        self.lock = threading.Lock()
        self.position = 0


class SimulatorEnv(gym.Env):
    observation_space = spaces.Box(-np.inf, np.inf, (1,))
    action_space = spaces.Discrete(2)

    def __init__(self):
        self.simulator = Simulator()

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.simulator.position = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.simulator.position += self.np_random.integers(3) * (action - 0.4)
        return np.array([self.simulator.position], np.float32), 1.0, self.simulator.position > 5, False, {}


class SavableSimulatorEnv(SimulatorEnv):
    def save_env_state(self):
        return {"simulator": self.simulator.position}

    def load_env_state(self, state):
        self.simulator.position = state["simulator"]
