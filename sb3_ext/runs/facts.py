"""What is known of a training, and ``run.json``, where it is kept in the run folder."""

from __future__ import annotations

import inspect
import json
import math
import os
import platform
import re
import secrets
import shlex
import socket
import string
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sb3_ext.common.clean_text import mask_passwords
from sb3_ext.common.process_start import starting_process
from sb3_ext.common.usage_error import UsageError
from sb3_ext.runs.alive import process_start, state_of
from sb3_ext.runs.files import RUN_FILE, atomic_write

if TYPE_CHECKING:
    from stable_baselines3.common.base_class import BaseAlgorithm

__all__ = ["RunFacts", "algorithm_name", "plain", "time_now"]

_PACKAGES = ("sb3-ext", "stable-baselines3", "sb3-contrib", "rl_zoo3", "gymnasium", "torch", "numpy", "wandb")
#: Parameters of an algorithm that say nothing about how it learns, or that are listed elsewhere
_NOT_HYPERPARAMETERS = ("self", "policy", "env", "tensorboard_log", "verbose", "seed", "device", "_init_setup_model")
#: Facts that say how a training went, or that are of no use to a tracker
_NOT_CONFIG = (
    "model",
    "started",
    "ended",
    "pid",
    "process_started",
    "host",
    "score",
    "score_from",
    "best_score",
    "solved",
    "resumes",
    "arguments",
    "charts",
    "state",
    "steps",
    "seconds",
    "stop_reason",
    "stop_advice",
    "signal",
    "error",
)

#: Sources of the score, by the metric that has it; the first beats the second
_SCORES = {"eval/mean_reward": "evaluation", "rollout/ep_rew_mean": "rollouts"}
_ID_LETTERS = string.ascii_lowercase + string.digits

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
    """What was trained, and how it ended; docs/runs.md explains the fields."""

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
    id: str = ""
    parent: str | None = None
    git_commit: str | None = None
    host: str | None = None
    pid: int | None = None
    process_started: float | None = None
    ended: str | None = None
    score: float | None = None
    score_from: str | None = None
    best_score: float | None = None
    solved: bool | None = None
    resumes: list[dict[str, Any]] = field(default_factory=list)
    #: Of RL Zoo's command line
    arguments: list[str] = field(default_factory=list)

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
            command=shlex.join(map(mask_passwords, sys.orig_argv)),
            started=time_now(),
            # Not from `random`, whose numbers a seed decides
            id="".join(secrets.choice(_ID_LETTERS) for _ in range(8)),
            git_commit=_git_commit(),
            host=socket.gethostname(),
            pid=os.getpid(),
            process_started=process_start(os.getpid()),
        )

    @classmethod
    def read(cls, folder: str | os.PathLike[str]) -> RunFacts:
        """:raises UsageError: when the folder has no ``run.json``, or a broken one"""
        path = Path(folder) / RUN_FILE
        known = {of_class.name for of_class in fields(cls)}
        try:
            read = json.loads(path.read_text(encoding="utf-8"))
            return cls(**{name: value for name, value in read.items() if name in known})
        except FileNotFoundError:
            raise UsageError(f"{path.parent} has no {RUN_FILE}, so it is not known what was trained there.") from None
        except (OSError, ValueError, AttributeError, TypeError, RecursionError) as error:
            raise UsageError(f"{path} can't be read: {error}") from None

    @classmethod
    def id_of(cls, model: str | os.PathLike[str]) -> str | None:
        """:return: the id of the run in whose folder a model is saved; ``None`` if it is not known"""
        try:
            return cls.read(Path(model).parent).id or None
        except UsageError:
            return None

    def resume(self, earlier: RunFacts) -> None:
        """Continue an earlier training in its folder: it stays the same run, with a new entry in ``resumes``."""
        self.resumes = [*earlier.resumes, {"at": self.started, "step": self.steps_at_start}]
        self.id, self.started, self.steps_at_start = earlier.id or self.id, earlier.started, earlier.steps_at_start
        self.parent, self.score, self.score_from = earlier.parent, earlier.score, earlier.score_from
        self.command, self.arguments = earlier.command, earlier.arguments
        self.best_score, self.solved = earlier.best_score, earlier.solved

    @property
    def is_alive(self) -> bool:
        """Whether its process is still training."""
        return state_of(asdict(self)) == "running"

    def see_row(self, row: Mapping[str, Any]) -> bool:
        """
        Take the score from a row of metrics: of an evaluation, or of rollouts as long as there was no evaluation.

        :return: whether the row has an evaluation
        """
        metric = next((name for name in _SCORES if name in row), None)
        if metric is None or not math.isfinite(row[metric]):
            return False
        is_evaluation = _SCORES[metric] == "evaluation"
        if not is_evaluation and self.score_from == "evaluation":
            return False
        best = self.best_score if self.score_from == _SCORES[metric] else None
        self.score, self.score_from = float(row[metric]), _SCORES[metric]
        self.best_score = self.score if best is None else max(self.score, best)
        threshold = self.env_threshold if self.threshold is None else self.threshold
        # The best rollouts may have been a lucky episode
        reached = self.best_score if is_evaluation else self.score
        self.solved = None if threshold is None else reached >= threshold
        return is_evaluation

    def config(self) -> dict[str, Any]:
        """For a tracker: what describes the training, and not how it went."""
        return {name: value for name, value in asdict(self).items() if name not in _NOT_CONFIG} | self.model

    def save(self, folder: str | os.PathLike[str]) -> None:
        with atomic_write(Path(folder) / RUN_FILE) as unfinished:
            unfinished.write_text(mask_passwords(f"{json.dumps(asdict(self), indent=2)}\n"), encoding="utf-8")


def time_now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S%z")


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
    """:return: the same in numbers, texts, lists and dicts; of a schedule that SB3 wrapped, what was given"""
    value = getattr(value, "value_schedule", value)
    value = value.val if type(value).__name__ == "ConstantSchedule" else value
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


def _git_commit() -> str | None:
    """Of the repository in which the program was started, if there is one."""
    command = ["git", "rev-parse", "--verify", "--quiet", "HEAD"]
    try:
        with starting_process():
            result = subprocess.run(command, capture_output=True, stdin=subprocess.DEVNULL, text=True, timeout=5)
    except (OSError, subprocess.SubprocessError):
        return None
    return result.stdout.strip() if result.returncode == 0 else None
