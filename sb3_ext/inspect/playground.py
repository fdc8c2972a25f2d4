"""Trains a small task live, with hyperparameters that can be changed while it learns."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Mapping
from typing import Any

import gymnasium as gym
import numpy as np
from pydantic import Field
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env

import sb3_ext.envs  # noqa: F401  registers Bandit-v0
from sb3_ext.common.names import check_choice
from sb3_ext.common.options import Integer, Number, Options, read_options
from sb3_ext.inspect.maps import policy_and_values, state_map
from sb3_ext.ppo_ext import PPOExt
from sb3_ext.runs.play.labels import action_labels

__all__ = ["TASKS", "Knobs", "Playground"]

#: Tasks, with arguments of their environments and of PPOExt
TASKS: Mapping[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "CartPole": ("CartPole-v1", {}, {"n_steps": 32, "batch_size": 256, "n_epochs": 10}),
    "FrozenLake": ("FrozenLake-v1", {"is_slippery": False}, {"n_steps": 64, "batch_size": 128, "n_epochs": 6}),
    "Grid world": (
        "FrozenLake-v1",
        {"is_slippery": False, "desc": ["SFFFHF", "FHFFFF", "FFFHFF", "HFFFFF", "FFHFHF", "FFFFFG"]},
        {"n_steps": 64, "batch_size": 128, "n_epochs": 6},
    ),
    "Bandit": ("Bandit-v0", {}, {"n_steps": 25, "batch_size": 100, "n_epochs": 4}),
}
_N_ENVS = 8
_MAX_POINTS = 500
#: Seconds from one rollout to the next at least, so that people can watch
_PAUSE = 0.05
#: Seconds without a page that asks for news, after which the training stops
_ALONE = 20.0
#: Edges of CartPole's map: pole angle and pole angular velocity
_ANGLE, _VELOCITY, _CELLS = 0.21, 3.0, 15


class Knobs(Options):
    """What the sliders set."""

    learning_rate: Number = Field(default=0.003, gt=0, le=1)
    ent_coef: Number = Field(default=0.005, ge=0, le=1)
    clip_range: Number = Field(default=0.2, gt=0, le=1)
    gamma: Number = Field(default=0.98, ge=0, le=1)
    seed: Integer = Field(default=1, ge=0, le=2**31)


class Playground:
    """One training at a time, in a thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._session: _Session | None = None

    def start(self, task: str, knobs: Mapping[str, Any]) -> None:
        check_choice("task", task, TASKS)
        read = read_options(Knobs, knobs, "playground")
        with self._lock:
            self._end()
            self._session = _Session(task, read)
            self._session.thread.start()

    def set(self, knobs: Mapping[str, Any]) -> None:
        """Change what is given, of a training that runs."""
        session = self._session
        if session is not None:
            session.knobs = read_options(Knobs, {**session.knobs.model_dump(), **knobs}, "playground")

    def stop(self) -> None:
        with self._lock:
            self._end()

    def _end(self) -> None:
        if self._session is not None:
            self._session.is_wanted = False
            self._session.thread.join()

    def state(self) -> dict[str, Any]:
        session = self._session
        if session is None:
            return {"tasks": list(TASKS), "runs": False}
        session.asked_at = time.monotonic()
        return {"tasks": list(TASKS), "runs": session.thread.is_alive(), **session.state}


class _Session:
    def __init__(self, task: str, knobs: Knobs) -> None:
        self.task = task
        self.knobs = knobs
        self.is_wanted = True
        self.asked_at = time.monotonic()
        self.state: dict[str, Any] = {"task": task, "steps": 0, "curve": {"x": [], "y": []}}
        self.thread = threading.Thread(target=self._train, name="playground", daemon=True)

    def _train(self) -> None:
        env_id, env_kwargs, settings = TASKS[self.task]
        try:
            env = make_vec_env(env_id, _N_ENVS, seed=self.knobs.seed, env_kwargs=env_kwargs)
            model = PPOExt(
                "MlpPolicy",
                env,
                learning_rate=lambda _: self.knobs.learning_rate,
                clip_range=lambda _: self.knobs.clip_range,
                seed=self.knobs.seed,
                device="cpu",
                **settings,
            )
            model.learn(10**9, callback=_Watch(self, env_id))
        # The page shows it; the server goes on
        except Exception as error:
            self.state = {**self.state, "error": f"{type(error).__name__}: {error}"}


class _Watch(BaseCallback):
    """Applies the knobs before each rollout and describes the policy after it."""

    def __init__(self, session: _Session, env_id: str) -> None:
        super().__init__()
        self._session = session
        self._env_id = env_id
        self._scores: deque[float] = deque(maxlen=100)
        self._curve: deque[tuple[int, float]] = deque(maxlen=_MAX_POINTS)

    def _on_step(self) -> bool:
        self._scores.extend(info["episode"]["r"] for info in self.locals["infos"] if "episode" in info)
        return self._session.is_wanted and time.monotonic() - self._session.asked_at < _ALONE

    def _on_rollout_start(self) -> None:
        knobs, model = self._session.knobs, self.model
        assert isinstance(model, PPOExt)
        model.ent_coef = knobs.ent_coef
        model.gamma = model.rollout_buffer.gamma = knobs.gamma
        self._describe(model)
        time.sleep(_PAUSE)

    def _describe(self, model: PPOExt) -> None:
        if self._scores:
            self._curve.append((self.num_timesteps, float(np.mean(self._scores))))
        curve = {"x": [step for step, _ in self._curve], "y": [round(score, 3) for _, score in self._curve]}
        env = self.training_env
        in_use = {"ent_coef": model.ent_coef, "gamma": model.rollout_buffer.gamma}
        self._session.state = {
            **{"task": self._session.task, "steps": self.num_timesteps, "curve": curve},
            **{"knobs": {**self._session.knobs.model_dump(), **in_use}, "actions": action_labels(env)},
            "map": _cartpole_map(model) if self._env_id == "CartPole-v1" else state_map(model, env),
            "policy": _single_state(model, env.observation_space) if self._env_id == "Bandit-v0" else None,
        }


def _cartpole_map(model: PPOExt) -> dict[str, Any]:
    """The cart stands in the middle; rows are angular velocities, columns angles."""
    angles = np.linspace(-_ANGLE, _ANGLE, _CELLS)
    velocities = np.linspace(_VELOCITY, -_VELOCITY, _CELLS)
    states = [[0.0, 0.0, angle, velocity] for velocity in velocities for angle in angles]
    found = policy_and_values(model, np.array(states, dtype=np.float32)) or {}
    axes = {"x": f"pole angle, ±{_ANGLE} rad", "y": f"angular velocity, ±{_VELOCITY:g} rad/s"}
    return {"rows": _CELLS, "columns": _CELLS, "groups": 1, "letters": None, "axes": axes, **found}


def _single_state(model: PPOExt, space: gym.Space) -> dict[str, Any] | None:
    """A bandit has one state: its policy is a row of bars."""
    return policy_and_values(model, np.stack([space.sample()]))
