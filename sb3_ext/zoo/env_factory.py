"""Makes a run's evaluation environments in another process, to evaluate or record an agent there."""

import copy
from collections.abc import Callable
from functools import partial
from typing import Any

import gymnasium as gym
from gymnasium.envs.registration import EnvSpec

# A process that unpickles a factory imports this module first. RL Zoo has to come before ExtExperimentManager
from rl_zoo3.exp_manager import ExperimentManager
from stable_baselines3.common.vec_env import DummyVecEnv, VecEnv

from sb3_ext.vec_env.choose import VecEnvChooser

__all__ = ["env_factory"]


def env_factory(manager: ExperimentManager, n_envs: int = 1) -> Callable[..., VecEnv]:
    """A function for cloudpickle that makes environments as for evaluation. It takes a ``render_mode``."""
    detached = copy.copy(manager)
    # Without what belongs to this process
    detached.callbacks = []
    detached._hyperparams = {}
    detached._log_file = None  # type: ignore[attr-defined]
    detached.vec_env_class, detached.vec_env_kwargs = DummyVecEnv, {}
    # One process, and an environment that can be rendered
    detached._chooser = VecEnvChooser(native=False, requested="dummy", verbose=0)  # type: ignore[attr-defined]
    detached.verbose = 0
    # Statistics come from the model that is played
    detached.trained_agent, detached.continue_training = "", False
    return partial(_make, detached, gym.spec(manager.env_name.gym_id), n_envs)


def _make(detached: Any, spec: EnvSpec, n_envs: int, render_mode: str | None = None) -> VecEnv:
    # Only the training's process may have imported the package that registers it
    gym.registry.setdefault(spec.id, spec)
    given = detached.eval_env_kwargs or {}
    detached.eval_env_kwargs = given if render_mode is None else {**given, "render_mode": render_mode}
    try:
        return detached.create_envs(n_envs, eval_env=True)
    finally:
        detached.eval_env_kwargs = given
