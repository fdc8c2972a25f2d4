"""Checkpoints of a run: their names, and how they are written and found again. Free of torch, for reports.

Models and normalisation statistics are in the run folder, under the names that RL Zoo's commands know:
``best_model.zip`` (``enjoy --load-best``), ``rl_model_<n>_steps.zip`` (``--load-checkpoint n``) and ``last_model.zip``.
``checkpoints/`` has the metrics of each model (``.json``) and an episode step by step (``.csv``); ``videos/`` a video.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from sb3_ext.common.model_file import read_model_file, zip_path
from sb3_ext.runs.agents.statistics import save_statistics, statistics_path
from sb3_ext.runs.files import atomic_write, link_or_copy

if TYPE_CHECKING:
    from stable_baselines3.common.base_class import BaseAlgorithm

__all__ = [
    "BEST",
    "LAST",
    "Checkpoint",
    "Metric",
    "Video",
    "best_video",
    "copy_checkpoint",
    "find_checkpoints",
    "find_videos",
    "old_checkpoints",
    "prune",
    "prune_videos",
    "save_checkpoint",
    "save_model",
    "step_name",
    "write_record",
]

BEST = "best_model"
LAST = "last_model"

Folder = str | os.PathLike[str]

_STEP_NAME = re.compile(r"rl_model_(?P<step>\d+)_steps")
_VIDEO = re.compile(r"(?P<kind>.+?)-step-(?P<step>\d+)")


class Metric(NamedTuple):
    value: float
    step: int


def step_name(step: int) -> str:
    return f"rl_model_{step}_steps"


@dataclass(frozen=True)
class Checkpoint:
    """The files of a checkpoint, whether they exist or not."""

    folder: Path
    name: str

    @property
    def kind(self) -> str:
        """``best``, ``last`` or ``step``."""
        return {BEST: "best", LAST: "last"}.get(self.name, "step")

    @property
    def step(self) -> int:
        """Timesteps of training."""
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
        """Its metrics, as JSON."""
        return self.folder / "checkpoints" / f"{self.name}.json"

    @property
    def table(self) -> Path:
        """An episode step by step, see ``sb3_ext.runs.play.episode_table``."""
        return self.folder / "checkpoints" / f"{self.name}.csv"

    @property
    def state(self) -> Path:
        """What else an exact resume needs, see ``sb3_ext.runs.agents.bundle``."""
        return self.folder / "checkpoints" / f"{self.name}.state"

    def video(self, step: int) -> Path:
        """:return: the video of the model as it was at a step"""
        kind = "checkpoint" if self.kind == "step" else self.kind
        return self.folder / "videos" / f"{kind}-step-{step}.mp4"

    @property
    def files(self) -> list[Path]:
        """Of a checkpoint of a step. The record comes first: without it, the rest counts as somebody else's."""
        more = sorted(self.folder.glob(f"checkpoints/{self.name}.*"))
        found = [self.record, *more, self.video(self.step), self.model, self.statistics]
        return [file for file in dict.fromkeys(found) if file.is_file()]

    def read_record(self) -> dict[str, Any]:
        """:return: what :func:`write_record` wrote"""
        return json.loads(self.record.read_text(encoding="utf-8"))


def save_model(model: BaseAlgorithm, path: Folder) -> None:
    """Save a model atomically, to a path with or without ``.zip``."""
    with atomic_write(zip_path(path)) as unfinished:
        model.save(unfinished)


def save_checkpoint(model: BaseAlgorithm, checkpoint: Checkpoint, metrics: Mapping[str, Metric]) -> None:
    """Save a model, after its statistics. The record comes last: where it exists, the other files are complete."""
    save_statistics(model, checkpoint.model)
    save_model(model, checkpoint.model)
    write_record(checkpoint, model.num_timesteps, type(model).__name__, metrics)


def write_record(checkpoint: Checkpoint, step: int, algorithm: str, metrics: Mapping[str, Metric]) -> None:
    """Write the metrics of a saved model. NaN and infinity become null, because JSON has neither."""
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
    with atomic_write(checkpoint.record) as unfinished:
        unfinished.write_text(json.dumps(record, indent=2, allow_nan=False) + "\n", encoding="utf-8")


def copy_checkpoint(source: Checkpoint, target: Checkpoint, metrics: Mapping[str, Metric], algorithm: str) -> None:
    """Give a checkpoint that was just saved a second name."""
    if source.statistics.is_file():
        link_or_copy(source.statistics, target.statistics)
    link_or_copy(source.model, target.model)
    target.table.unlink(missing_ok=True)  # belongs to the model that had the name before
    write_record(target, source.step, algorithm, metrics)


def find_checkpoints(folder: Folder) -> list[Checkpoint]:
    """The models in any run folder, made with or without sb3-ext: by step, then the last, then the best model."""
    folder = Path(folder)
    names = [path.stem for path in folder.glob("rl_model_*_steps.zip") if _STEP_NAME.fullmatch(path.stem)]
    found = sorted((Checkpoint(folder, name) for name in names), key=lambda checkpoint: checkpoint.step)
    return found + [Checkpoint(folder, name) for name in (LAST, BEST) if (folder / f"{name}.zip").is_file()]


def prune(folder: Folder, keep: int) -> list[Checkpoint]:
    """Remove :func:`old_checkpoints`, with everything that belongs to them."""
    removed = old_checkpoints(folder, keep)
    for checkpoint in removed:
        for file in checkpoint.files:
            file.unlink(missing_ok=True)
    return removed


def old_checkpoints(folder: Folder, keep: int) -> list[Checkpoint]:
    """All but the latest ``keep``, without the best model, the last model, and models that others saved."""
    ours = [found for found in find_checkpoints(folder) if found.kind == "step" and found.record.is_file()]
    # By time: a training that started again from 0 in the same folder has smaller numbers than those it replaces
    ours.sort(key=lambda checkpoint: (checkpoint.model.stat().st_mtime_ns, checkpoint.step))
    return ours[: max(len(ours) - keep, 0)]


class Video(NamedTuple):
    """``kind``: ``best``, ``last`` or ``checkpoint``; for a video of another program, its name, without a step."""

    path: Path
    kind: str
    step: int | None


def find_videos(folder: Folder) -> list[Video]:
    videos = []
    for path in Path(folder, "videos").glob("[!.]*.mp4"):
        named = _VIDEO.match(path.stem)
        videos.append(Video(path, path.stem, None) if named is None else Video(path, named["kind"], int(named["step"])))
    return sorted(videos, key=lambda video: (video.step or 0, video.kind))


def best_video(folder: Folder) -> Path | None:
    """The video of the best model; otherwise the newest one of an earlier best model, by us or by RL Zoo."""
    best = Checkpoint(Path(folder), BEST)
    with suppress(OSError, ValueError):  # there may be no best model, or half of one
        if (video := best.video(best.step)).is_file():
            return video
    videos = find_videos(folder)
    ours = [video.path for video in videos if video.kind == "best"]
    candidates = ours or [video.path for video in videos if video.kind.startswith("best-model-")]
    return max(candidates, key=_changed_at, default=None)


def prune_videos(folder: Folder, kind: str, keep: int) -> None:
    """Remove all but the latest ``keep`` videos of a kind."""
    videos = sorted((video.path for video in find_videos(folder) if video.kind == kind), key=_changed_at)
    for path in videos[: max(len(videos) - keep, 0)]:
        path.unlink(missing_ok=True)


def _changed_at(path: Path) -> int:
    return path.stat().st_mtime_ns
