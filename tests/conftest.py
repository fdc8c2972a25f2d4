"""What several tests use: small environments, and a virtual environment with the built wheel."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import gymnasium as gym
import hypothesis
import numpy as np
import pytest
import torch as th
from filelock import FileLock
from gymnasium import spaces
from small_training import TINY, make_model
from stable_baselines3.common.callbacks import EvalCallback
from stable_baselines3.common.env_util import make_vec_env
from wheel_env import WheelEnv

from sb3_ext.callbacks.report import Report

PROJECT = Path(__file__).parent.parent

ACTION_SPACES = {
    "Discrete": spaces.Discrete(3),
    "MultiDiscrete": spaces.MultiDiscrete([2, 3]),
    "MultiBinary": spaces.MultiBinary(3),
    "Box": spaces.Box(-1.0, 1.0, (2,), np.float32),
}
OBSERVATION_SPACES = {
    "Box": spaces.Box(-1.0, 1.0, (4,), np.float32),
    "Discrete": spaces.Discrete(5),
    "Dict": spaces.Dict({"vector": spaces.Box(-1.0, 1.0, (3,), np.float32), "number": spaces.Discrete(4)}),
    "image": spaces.Box(0, 255, (36, 36, 1), np.uint8),
}
# Tiny networks: a second thread only waits, for minutes when other processes want the cores
th.set_num_threads(1)
# Machines are noisy: an example that is slow once says nothing
hypothesis.settings.register_profile("no_deadline", deadline=None)
hypothesis.settings.load_profile("no_deadline")

POLICIES = {"Box": "MlpPolicy", "Discrete": "MlpPolicy", "Dict": "MultiInputPolicy", "image": "CnnPolicy"}


class RandomEnv(gym.Env):
    """Random observations and rewards in given spaces; episodes end by themselves or are truncated in turn."""

    def __init__(self, observation_space: spaces.Space, action_space: spaces.Space, length: int = 7) -> None:
        self.observation_space = observation_space
        self.action_space = action_space
        self._length = length
        self._episode = 0

    def action_masks(self):
        """All actions are possible, in the form that MaskablePPO wants."""
        sizes = {spaces.Discrete: "n", spaces.MultiDiscrete: "nvec", spaces.MultiBinary: "n"}
        size = np.sum(getattr(self.action_space, sizes[type(self.action_space)]))
        return np.ones(2 * size if isinstance(self.action_space, spaces.MultiBinary) else size, dtype=bool)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        if seed is not None:
            self.observation_space.seed(seed)
        self._episode += 1
        self._step = 0
        return self.observation_space.sample(), {}

    def receive(self, action):
        assert self.action_space.contains(action)

    def step(self, action):
        self.receive(action)
        self._step += 1
        over = self._step >= self._length
        terminated = over and self._episode % 2 == 0
        return self.observation_space.sample(), float(self.np_random.normal()), terminated, over and not terminated, {}


@pytest.fixture
def closing():
    """Closes what it is given, at the end of the test."""
    vec_envs = []
    yield lambda vec_env: vec_envs.append(vec_env) or vec_env
    for vec_env in vec_envs:
        vec_env.close()


@pytest.fixture(scope="session")
def wheel(tmp_path_factory):
    """The wheel, built from the source distribution, once for all processes of a test run."""
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent  # which the processes have in common
    with FileLock(folder / "wheel.lock"):
        if not list(folder.glob("*.whl")):
            command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, PROJECT]
            subprocess.run(command, check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    return wheel


@pytest.fixture(scope="session")
def wheel_env(wheel, tmp_path_factory):
    """A fresh virtual environment with the built wheel, as a user has it after ``pip install sb3-ext``."""
    env = WheelEnv(tmp_path_factory.mktemp("wheel") / "venv")
    env.install(wheel)
    return env


@pytest.fixture(scope="session")
def reported_run(tmp_path_factory):
    """A training with all that belongs to it: rows, evaluations, Monitor's files, alerts, and the report."""
    folder = tmp_path_factory.mktemp("runs") / "CartPole-v1_1"
    folder.mkdir()
    alerts = [
        {"id": "kl_high", "metric": "train/approx_kl", "count": 4, "share": 0.25, "first_step": 256, "last_step": 1024}
        | {"advice": "lower learning_rate"},
        {
            "id": "silent",
            "metric": "train/loss",
            "count": 0,
            "share": 0.0,
            "first_step": 0,
            "last_step": 0,
            "advice": "",
        },
    ]
    (folder / "alerts.json").write_text(json.dumps(alerts))
    evaluation = EvalCallback(
        make_vec_env("CartPole-v1", seed=1), n_eval_episodes=3, eval_freq=200, log_path=str(folder), verbose=0
    )
    model = make_model(folder, **TINY)
    model.learn(2000, callback=[evaluation, Report(folder, charts=["train/entropy_loss"])])
    return folder


@pytest.fixture
def two_threads():
    """For the few tests that are about threads."""
    th.set_num_threads(2)
    yield
    th.set_num_threads(1)
