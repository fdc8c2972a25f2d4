"""Environments for the tests of MulticoreVecEnv; worker processes import them from here."""

import functools
import multiprocessing
from copy import deepcopy

import numpy as np
from conftest import ACTION_SPACES, OBSERVATION_SPACES, RandomEnv
from gymnasium import spaces
from stable_baselines3.common.monitor import Monitor

SPACES = {
    **OBSERVATION_SPACES,
    "MultiDiscrete": spaces.MultiDiscrete([3, 4]),
    "Tuple": spaces.Tuple([spaces.Box(-1.0, 1.0, (2, 2), np.float64), spaces.Discrete(3)]),
}
N_ENVS = 7


class TalkativeEnv(RandomEnv):
    """
    Random, with all that an environment may tell: infos of some steps and of resets, rewards that recall actions, and
    every fourth episode terminates at its time limit.
    """

    render_mode = "rgb_array"
    colour = 3

    def reset(self, *, seed=None, options=None):
        self.last_action = np.zeros(self.action_space.shape)
        obs, _ = super().reset(seed=seed)
        return obs, {"seed": seed, "options": options} if seed is not None else {}

    def step(self, action):
        obs, reward, terminated, truncated, _ = super().step(action)
        truncated = truncated or (terminated and self._episode % 4 == 0)
        reward += float(np.sum(self.last_action))
        self.last_action = action
        info = {"step": self._step, "obs": obs} if self._step % 3 == 0 else {}
        return obs, reward, terminated, truncated, info

    def render(self):
        return np.full((4, 5, 3), self.colour, dtype=np.uint8)

    def add(self, number, *, to=0):
        return self.colour + number + to


FIRE = functools.partial(ValueError, "the pole is on fire")


class FailingEnv(RandomEnv):
    def __init__(self, number, failing, make_error=FIRE):
        super().__init__(OBSERVATION_SPACES["Box"], ACTION_SPACES["Discrete"])
        self.fails, self.make_error = number == failing, make_error

    def step(self, action):
        if self.fails and self._step == 2:
            raise self.make_error()
        return super().step(action)


class UnpicklableError(Exception):
    def __init__(self):
        super().__init__("no way out")
        self.function = lambda: None


def make_fns(obs="Box", action="Discrete", n_envs=N_ENVS):
    def make():
        # Spaces hold random states: each environment needs its own.
        return Monitor(TalkativeEnv(deepcopy(SPACES[obs]), deepcopy(ACTION_SPACES[action])))

    return [make] * n_envs


def random_actions(space, n_steps, n_envs=N_ENVS):
    space.seed(1)
    return [np.stack([space.sample() for _ in range(n_envs)]) for _ in range(n_steps)]


def worker_pids():
    return {process.pid for process in multiprocessing.active_children()}
