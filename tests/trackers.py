"""What a training left at a tracker, Weights & Biases or MLflow, read back in one form."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import wandb
from wandb_offline import OfflineRun, offline, read_runs


@dataclass
class TrackedRun:
    """
    :param status: ``finished``, ``failed`` or ``interrupted``; ``None`` while it is open
    :param end: how it ended, in words
    :param curves: by metric: pairs of the x axis and the value
    :param files: their paths, with what they belong to as the first part
    :param videos: names and steps
    :param config: values as texts
    :param alerts: texts
    """

    run_id: str
    status: str | None
    end: str | None
    curves: dict[str, list[tuple[int, float]]]
    files: set[str]
    videos: list[tuple[str, int]]
    config: dict[str, str]
    alerts: list[str] = field(default_factory=list)


class WandbBackend:
    key = "wandb"

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def has_open_run(self) -> bool:
        return wandb.run is not None

    @contextmanager
    def started(self, notes: str) -> Iterator[str]:
        """A run that the program itself has opened."""
        with wandb.init(notes=notes) as run:
            yield run.id

    def runs(self, notes: str) -> list[TrackedRun]:
        """W&B's service closes its file a moment after the run was finished."""
        for _ in range(300):
            runs = [run for run in read_runs(self.folder) if run.notes == notes]
            if runs and all(run.exit_code is not None for run in runs):
                break
            time.sleep(0.1)
        return [self._read(run) for run in runs]

    def _read(self, run: OfflineRun) -> TrackedRun:
        names = dict.fromkeys(name for row in run.history for name in row if not name.startswith("_"))
        axes = {name: run.step_metrics.get(name) or run.step_metrics["*"] for name in names}
        curves = {name: run.curve(name, axes[name]) for name in names}
        kinds = {"model": "model", "run-folder": "run"}
        return TrackedRun(
            run.run_id,
            {None: None, 0: "finished", 1: "failed", 255: "interrupted"}[run.exit_code],
            run.summary.get("end"),
            {name: curve for name, curve in curves.items() if isinstance(curve[0][1], int | float)},
            {f"{kinds[one.type]}/{entry.path}" for one in run.artifacts for entry in one.manifest.contents},
            [(name[6:], step) for name in names if name.startswith("video/") for step, _ in curves[name]],
            {name: str(value) for name, value in run.config.items()}
            | {f"hyperparams.{name}": str(value) for name, value in run.config.get("hyperparams", {}).items()},
            [text for _, text, _ in run.alerts],
        )


class MlflowBackend:
    key = "mlflow"

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def has_open_run(self) -> bool:
        import mlflow

        return mlflow.active_run() is not None

    @contextmanager
    def started(self, notes: str) -> Iterator[str]:
        import mlflow

        with mlflow.start_run(description=notes) as run:
            yield run.info.run_id

    def runs(self, notes: str) -> list[TrackedRun]:
        import mlflow

        client = mlflow.MlflowClient()
        experiments = [experiment.experiment_id for experiment in client.search_experiments()]
        runs = client.search_runs(experiments, f"tags.`mlflow.note.content` = '{notes}'")
        return [self._read(client, run) for run in reversed(runs)]

    def _read(self, client: Any, run: Any) -> TrackedRun:
        run_id, tags = run.info.run_id, run.data.tags
        curves = {}
        for name in run.data.metrics:
            history = sorted(
                client.get_metric_history(run_id, name), key=lambda metric: (metric.step, metric.timestamp)
            )
            curves[name] = [(metric.step, metric.value) for metric in history]
        folders = [artifact.path for artifact in client.list_artifacts(run_id)]
        files = {file.path for folder in folders for file in client.list_artifacts(run_id, folder)}
        videos = sorted(re.findall(r"video/(\w+)-step-(\d+)\.mp4", " ".join(files)))
        return TrackedRun(
            run_id,
            {"RUNNING": None, "FINISHED": "finished", "FAILED": "failed", "KILLED": "interrupted"}[run.info.status],
            tags.get("end"),
            curves,
            {file for file in files if not file.startswith("video/") and not file.endswith("/metadata.json")},
            [(name, int(step)) for name, step in videos],
            dict(run.data.params),
            [text for name, text in tags.items() if name.startswith("alert.")],
        )


@contextmanager
def wandb_backend(folder: Path) -> Iterator[WandbBackend]:
    with offline(folder):
        yield WandbBackend(folder)


@contextmanager
def mlflow_backend(folder: Path) -> Iterator[MlflowBackend]:
    """A database and files in the folder; no usage statistics are sent."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{folder}/mlflow.db")
        patch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
        for name in ("EXPERIMENT_NAME", "EXPERIMENT_ID", "RUN_ID"):
            patch.delenv(f"MLFLOW_{name}", raising=False)
        patch.chdir(folder)  # artifacts go to ./mlruns
        yield MlflowBackend(folder)


BACKENDS = {"wandb": wandb_backend, "mlflow": mlflow_backend}
