"""What the page of a run on Weights & Biases says of the training: hyperparameters, environment, versions, command."""

from __future__ import annotations

import inspect
import platform
import re
import sys
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np
from stable_baselines3.common.base_class import BaseAlgorithm

from sb3_ext.common.clean_text import mask_passwords

__all__ = ["algorithm_name", "describe_run", "env_id_of", "plain"]

_PACKAGES = ("sb3-ext", "stable-baselines3", "sb3-contrib", "rl_zoo3", "gymnasium", "torch", "numpy", "wandb")
#: Parameters of an algorithm that say nothing about how it learns, or that are told elsewhere
_NOT_HYPERPARAMETERS = ("self", "policy", "env", "tensorboard_log", "verbose", "seed", "device", "_init_setup_model")


def algorithm_name(model: BaseAlgorithm) -> str:
    """
    :param model: such as a ``PPOExt``
    :return: its name in RL Zoo's way, such as ``ppo_ext``
    """
    words = re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", type(model).__name__)
    return words.lower()


def env_id_of(model: BaseAlgorithm) -> str | None:
    """
    :param model: has its training environments
    :return: their id, where they say it
    """
    env = model.get_env()
    try:
        spec = None if env is None else env.get_attr("spec", indices=0)[0]
    except AttributeError:
        return None
    return None if spec is None else spec.id


def describe_run(
    model: BaseAlgorithm, algo: str, env_id: str | None, hyperparams: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """
    :param model: that is about to be trained
    :param algo: name of the algorithm
    :param env_id: of its environments
    :param hyperparams: as a config has them; by default what the model says
    :return: numbers and texts by name, for the run's config
    """
    normalize = model.get_vec_normalize_env()
    return {
        "algo": algo,
        "env_id": env_id,
        "n_envs": model.n_envs,
        "seed": model.seed,
        "total_timesteps": model._total_timesteps,
        "observation_space": str(model.observation_space),
        "action_space": str(model.action_space),
        "policy": type(model.policy).__name__,
        "n_parameters": sum(parameter.numel() for parameter in model.policy.parameters()),
        "device": str(model.device),
        "normalize_obs": bool(normalize is not None and normalize.norm_obs),
        "normalize_reward": bool(normalize is not None and normalize.norm_reward),
        "hyperparams": plain(_hyperparams_of(model) if hyperparams is None else hyperparams),
        "versions": _versions(),
        "command": mask_passwords(" ".join(sys.orig_argv)),
    }


def plain(value: Any) -> Any:
    """
    :param value: of a hyperparameter
    :return: the same in numbers, texts, lists and dicts
    """
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, str):
        return mask_passwords(value)
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, Sequence | set):
        return [plain(item) for item in value]
    if inspect.isclass(value) or inspect.isroutine(value):
        return value.__qualname__
    # Without the address in memory, which would make each run a different one
    return re.sub(r" at 0x[0-9a-f]+", "", mask_passwords(str(value)))


def _hyperparams_of(model: BaseAlgorithm) -> dict[str, Any]:
    parameters = inspect.signature(type(model).__init__).parameters
    names = [name for name in parameters if name not in _NOT_HYPERPARAMETERS]
    return {name: getattr(model, name) for name in names if hasattr(model, name)}


def _versions() -> dict[str, str]:
    versions = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            continue
    return versions
