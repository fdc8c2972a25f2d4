"""Loads a saved agent to play it: the model, and the normalisation statistics that were saved with it."""

import time
import warnings
from pathlib import Path
from typing import Any, TypeVar

import torch as th
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.vec_env import VecEnv

from sb3_ext.common.model_file import callback_state
from sb3_ext.runs.agents.statistics import load_statistics, statistics_path

__all__ = ["enter_stage", "load_agent"]

A = TypeVar("A", bound=BaseAlgorithm)

#: An agent that only plays needs no memory for training, and no seed: ``load`` would restart all random numbers.
#: SB3 ignores names that a model does not have.
_NOT_FOR_PLAYING: dict[str, Any] = {
    "buffer_size": 1,
    "optimize_memory_usage": False,
    "replay_buffer_class": None,
    "replay_buffer_kwargs": {},
    "seed": None,
    "tensorboard_log": None,
    "verbose": 0,
}


def load_agent(
    model: Path, env: VecEnv, algorithm: type[A], *, norm_reward: bool = False, attempts: int = 1
) -> tuple[A, VecEnv]:
    """
    Load a model on the CPU, and normalise ``env`` with the model's statistics, where it has any; a ``ValueError`` says
    that these belong to another model. The random numbers of this process stay as they are.

    :param norm_reward: normalise rewards too, where training did
    :param attempts: how often to try, five times a second. A training may be replacing the two files right now
    """
    for _ in range(attempts - 1):
        try:
            return _load(model, env, algorithm, norm_reward)
        except ValueError:
            time.sleep(0.2)
    return _load(model, env, algorithm, norm_reward)


def _load(model: Path, env: VecEnv, algorithm: type[A], norm_reward: bool) -> tuple[A, VecEnv]:
    if statistics_path(model).is_file():
        env = load_statistics(model, env, norm_reward=norm_reward)
    with warnings.catch_warnings(), th.random.fork_rng(devices=[]):
        # Training has shown the warnings; and creating networks takes random numbers
        warnings.simplefilter("ignore")
        agent = algorithm.load(model, env=env, device="cpu", custom_objects=_NOT_FOR_PLAYING)
    return agent, agent.get_env() or env


def enter_stage(env: VecEnv, model: BaseAlgorithm) -> None:
    """An evaluation environment that starts in the first stage of a curriculum follows training."""
    state = callback_state(model).get("curriculum")
    if state and env.has_attr("set_stage") and env.get_attr("stage", 0)[0] == 0:
        env.env_method("set_stage", state["stage"])
