"""Checkpoints of a run: their names, how they are written, and how they are found again.

Models and normalisation statistics lie in the run folder under the names that RL Zoo's commands know:
``best_model.zip`` (``enjoy --load-best``) and ``rl_model_<n>_steps.zip`` (``--load-checkpoint n``); and there is
``last_model.zip``. What there is to know about a model is in ``checkpoints/``, under its name: the metrics at that
moment (``.json``) and an episode step by step (``.csv``).
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from stable_baselines3.common.base_class import BaseAlgorithm

from sb3_ext.common.model_file import read_model_file
from sb3_ext.runs.agents.statistics import save_statistics, statistics_path
from sb3_ext.runs.files import replacing, same_file, save_model

__all__ = [
    "BEST",
    "LAST",
    "Checkpoint",
    "Metric",
    "copy_checkpoint",
    "find_checkpoints",
    "prune",
    "save_checkpoint",
    "step_name",
    "write_record",
]

BEST = "best_model"
LAST = "last_model"

Folder = str | os.PathLike[str]

_STEP_NAME = re.compile(r"rl_model_(?P<step>\d+)_steps")


@dataclass(frozen=True)
class Metric:
    """
    :param value: of a metric
    :param step: timesteps when it was known
    """

    value: float
    step: int


def step_name(step: int) -> str:
    """
    :param step: timesteps
    :return: name of the checkpoint
    """
    return f"rl_model_{step}_steps"


@dataclass(frozen=True)
class Checkpoint:
    """
    The files of a checkpoint; whether they are there is another question.

    :param folder: the run folder
    :param name: of the model, without ``.zip``
    """

    folder: Path
    name: str

    @property
    def kind(self) -> str:
        """``best``, ``last`` or ``step``."""
        return {BEST: "best", LAST: "last"}.get(self.name, "step")

    @property
    def step(self) -> int:
        """Timesteps that the model was trained for."""
        named = _STEP_NAME.fullmatch(self.name)
        return read_model_file(self.model).num_timesteps if named is None else int(named["step"])

    @property
    def model(self) -> Path:
        return self.folder / f"{self.name}.zip"

    @property
    def statistics(self) -> Path:
        return statistics_path(self.model)

    @property
    def record(self) -> Path:
        """The metrics of that moment, as JSON."""
        return self.folder / "checkpoints" / f"{self.name}.json"

    @property
    def table(self) -> Path:
        """An episode step by step, see ``sb3_ext.runs.play.episode_table``."""
        return self.folder / "checkpoints" / f"{self.name}.csv"

    def video(self, step: int) -> Path:
        """
        :param step: timesteps of the model in it
        """
        kind = "checkpoint" if self.kind == "step" else self.kind
        return self.folder / "videos" / f"{kind}-step-{step}.mp4"

    def read_record(self) -> dict[str, Any]:
        """
        :return: what :func:`write_record` wrote
        :raises FileNotFoundError: when nobody did
        """
        return json.loads(self.record.read_text(encoding="utf-8"))


def save_checkpoint(model: BaseAlgorithm, checkpoint: Checkpoint, metrics: Mapping[str, Metric]) -> None:
    """
    Save a model with what belongs to it. The model's file comes after its statistics, and the record comes last: where
    there is one, the others are complete.

    :param model: the model, in training
    :param checkpoint: where
    :param metrics: what is known of it, by name
    """
    save_statistics(model, checkpoint.model)
    save_model(model, checkpoint.model)
    write_record(checkpoint, model.num_timesteps, type(model).__name__, metrics)


def write_record(checkpoint: Checkpoint, step: int, algorithm: str, metrics: Mapping[str, Metric]) -> None:
    """
    :param checkpoint: whose model is there already
    :param step: its timesteps
    :param algorithm: name of its class
    :param metrics: what is known of it, by name. NaN and infinity become null, which JSON has instead
    """
    statistics = checkpoint.statistics
    record = {
        "name": checkpoint.name,
        "kind": checkpoint.kind,
        "step": step,
        "algorithm": algorithm,
        "model": checkpoint.model.name,
        "statistics": statistics.name if statistics.is_file() else None,
        "saved_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "metrics": {name: metric.value if math.isfinite(metric.value) else None for name, metric in metrics.items()},
        "metric_steps": {name: metric.step for name, metric in metrics.items()},
    }
    with replacing(checkpoint.record) as unfinished:
        unfinished.write_text(json.dumps(record, indent=2, allow_nan=False) + "\n", encoding="utf-8")


def copy_checkpoint(source: Checkpoint, target: Checkpoint, metrics: Mapping[str, Metric], algorithm: str) -> None:
    """
    Give a checkpoint that was saved just now a second name.

    :param source: the checkpoint
    :param target: its other name
    :param metrics: its metrics
    :param algorithm: name of its class
    """
    if source.statistics.is_file():
        same_file(source.statistics, target.statistics)
    same_file(source.model, target.model)
    # Of the model that had the name before
    target.table.unlink(missing_ok=True)
    write_record(target, source.step, algorithm, metrics)


def find_checkpoints(folder: Folder) -> list[Checkpoint]:
    """
    :param folder: a run folder, made with or without this package
    :return: the models that can be loaded: those of steps in their order, then the last one, then the best one
    """
    folder = Path(folder)
    names = [path.stem for path in folder.glob("rl_model_*_steps.zip") if _STEP_NAME.fullmatch(path.stem)]
    found = sorted((Checkpoint(folder, name) for name in names), key=lambda checkpoint: checkpoint.step)
    return found + [Checkpoint(folder, name) for name in (LAST, BEST) if (folder / f"{name}.zip").is_file()]


def prune(folder: Folder, keep: int) -> list[Checkpoint]:
    """
    Remove all but the latest checkpoints of steps, with everything that belongs to them. Models that were saved by
    others, without a record, stay; so do the best and the last one.

    :param folder: a run folder
    :param keep: how many stay
    :return: the removed ones
    """
    ours = [checkpoint for checkpoint in find_checkpoints(folder) if checkpoint.kind == "step"]
    ours = [checkpoint for checkpoint in ours if checkpoint.record.is_file()]
    # By time: a training that began again from 0 in the same folder has smaller numbers than those it replaces
    ours.sort(key=lambda checkpoint: (checkpoint.model.stat().st_mtime_ns, checkpoint.step))
    removed = ours[: max(len(ours) - keep, 0)]
    for checkpoint in removed:
        # The record first: without it, the rest counts as somebody else's, and not as a complete checkpoint
        for file in (checkpoint.record, checkpoint.table, checkpoint.video(checkpoint.step)):
            file.unlink(missing_ok=True)
        checkpoint.model.unlink(missing_ok=True)
        checkpoint.statistics.unlink(missing_ok=True)
    return removed
