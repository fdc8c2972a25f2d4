"""Lets RL Zoo's commands play in the task that an agent was trained in, and show the environment's own rewards."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stable_baselines3.common.vec_env import VecEnv

__all__ = ["as_trained", "without_shaping"]


def as_trained(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """
    ``record_video`` and ``push_to_hub`` know only the command line's ``env_kwargs``, not those of the hyperparameters.

    :param arguments: what ``create_test_env`` is given
    :return: the ``env_kwargs`` that it should be given
    """
    of_section = (arguments.get("hyperparams") or {}).get("env_kwargs") or {}
    return {**of_section, **(arguments.get("env_kwargs") or {})}


def without_shaping(env: VecEnv) -> VecEnv:
    """
    ``enjoy`` adds up what comes out of the wrappers.

    :param env: environments to play in, not to train
    :return: the same, with reward shapers switched off
    """
    if env.has_attr("set_shaping"):
        env.env_method("set_shaping", False)
    return env
