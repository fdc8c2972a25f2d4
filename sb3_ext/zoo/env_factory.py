"""Makes a run's environment for evaluation once more, in another process: to evaluate or to watch an agent there."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import gymnasium as gym
from gymnasium.envs.registration import EnvSpec
from stable_baselines3.common.vec_env import DummyVecEnv, VecEnv

from sb3_ext.vec_env.choose import VecEnvChooser

if TYPE_CHECKING:  # a process that unpickles a factory imports this module before RL Zoo, which imports it in turn
    from rl_zoo3.exp_manager import ExperimentManager

__all__ = ["env_factory"]


def env_factory(manager: ExperimentManager, n_envs: int = 1) -> Callable[..., VecEnv]:
    """
    :param manager: of a run whose hyperparameters are read
    :param n_envs: how many environments to make
    :return: makes them, wrapped as for evaluation; may be given a ``render_mode``. cloudpickle can send it
    """
    twin = copy.copy(manager)
    # Without what belongs to this process
    twin.callbacks = []
    twin._hyperparams = {}
    twin.vec_env_class, twin.vec_env_kwargs = DummyVecEnv, {}
    # One process, and an environment that can be rendered
    twin._chooser = VecEnvChooser(native=False, wish="dummy", verbose=0)  # type: ignore[attr-defined]
    twin.verbose = 0
    # Statistics are those of the model that is played
    twin.trained_agent, twin.continue_training = "", False
    return partial(_make, twin, gym.spec(manager.env_name.gym_id), n_envs)


def _make(twin: Any, spec: EnvSpec, n_envs: int, render_mode: str | None = None) -> VecEnv:
    # Registered by a package that only the training was told of
    gym.registry.setdefault(spec.id, spec)
    given = twin.eval_env_kwargs or {}
    twin.eval_env_kwargs = given if render_mode is None else {**given, "render_mode": render_mode}
    try:
        return twin.create_envs(n_envs, eval_env=True)
    finally:
        twin.eval_env_kwargs = given
