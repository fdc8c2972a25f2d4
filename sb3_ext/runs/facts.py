"""What is known of a training, and ``run.json``, where it is kept in the run folder."""

from __future__ import annotations

import inspect
import json
import os
import platform
import re
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sb3_ext.common.clean_text import mask_passwords
from sb3_ext.runs.files import RUN_FILE, atomic_write

if TYPE_CHECKING:
    from stable_baselines3.common.base_class import BaseAlgorithm

__all__ = ["RunFacts", "algorithm_name", "plain"]

_PACKAGES = ("sb3-ext", "stable-baselines3", "sb3-contrib", "rl_zoo3", "gymnasium", "torch", "numpy", "wandb")
#: Parameters of an algorithm that say nothing about how it learns, or that are listed elsewhere
_NOT_HYPERPARAMETERS = ("self", "policy", "env", "tensorboard_log", "verbose", "seed", "device", "_init_setup_model")
#: Facts that say how a training went, or that are of no use to a tracker
_NOT_CONFIG = (
    "model",
    "started",
    "charts",
    "state",
    "steps",
    "seconds",
    "stop_reason",
    "stop_advice",
    "signal",
    "error",
)


#: Algorithms that RL Zoo does not call after their class
_OTHER_NAMES = {
    "CrossQ": "crossq",
    "MaskablePPO": "ppo_mask",
    "MaskablePPOExt": "ppo_mask_ext",
    "RecurrentPPO": "ppo_lstm",
    "RecurrentPPOExt": "ppo_lstm_ext",
}


@dataclass
class RunFacts:
    """What was trained, and how it ended; docs/reports.md explains the fields."""

    algorithm: str
    algo: str
    env_id: str | None
    n_envs: int
    seed: int | None
    steps_at_start: int
    total_timesteps: int
    model: dict[str, Any]
    hyperparams: dict[str, Any]
    versions: dict[str, str]
    command: str
    started: str
    axis: str = "timesteps"
    threshold: float | None = None
    env_threshold: float | None = None
    evaluates: bool = False
    deterministic_eval: bool | None = None
    charts: list[str] = field(default_factory=list)
    state: str = "running"
    steps: int | None = None
    seconds: float | None = None
    stop_reason: str | None = None
    stop_advice: str | None = None
    signal: str | None = None
    error: str | None = None

    @classmethod
    def of(cls, model: BaseAlgorithm, algo: str | None = None, env_id: str | None = None) -> RunFacts:
        """:param algo: name of the algorithm; default: from the model's class"""
        return cls(
            algorithm=type(model).__name__,
            algo=algo or algorithm_name(model),
            env_id=env_id,
            n_envs=model.n_envs,
            seed=model.seed,
            steps_at_start=model.num_timesteps,
            total_timesteps=model._total_timesteps,
            model=_describe(model),
            hyperparams=plain(_hyperparams_of(model)),
            versions=_versions(),
            command=mask_passwords(" ".join(sys.orig_argv)),
            started=time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        )

    def config(self) -> dict[str, Any]:
        """For a tracker: what describes the training, and not how it went."""
        return {name: value for name, value in asdict(self).items() if name not in _NOT_CONFIG} | self.model

    def save(self, folder: str | os.PathLike[str]) -> None:
        with atomic_write(Path(folder) / RUN_FILE) as unfinished:
            unfinished.write_text(mask_passwords(f"{json.dumps(asdict(self), indent=2)}\n"), encoding="utf-8")


def algorithm_name(model: BaseAlgorithm) -> str:
    """:return: its name in RL Zoo's way, such as ``ppo_ext``"""
    name = type(model).__name__
    snake_case = re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()
    return _OTHER_NAMES.get(name, snake_case)


def _describe(model: BaseAlgorithm) -> dict[str, Any]:
    normalize = model.get_vec_normalize_env()
    return {
        "observation_space": str(model.observation_space),
        "action_space": str(model.action_space),
        "policy": type(model.policy).__name__,
        "n_parameters": sum(parameter.numel() for parameter in model.policy.parameters()),
        "device": str(model.device),
        "normalize_obs": bool(normalize is not None and normalize.norm_obs),
        "normalize_reward": bool(normalize is not None and normalize.norm_reward),
    }


def plain(value: Any) -> Any:
    """:return: the same in numbers, texts, lists and dicts"""
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
