"""Weights & Biases in offline mode: where it writes, and what it wrote, the records of a ``.wandb`` file."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import wandb
from wandb.proto.wandb_internal_pb2 import Record

from sb3_ext.runs.wandb_run import payloads


@contextmanager
def offline(folder: Path) -> Iterator[Path]:
    """
    W&B puts its files into a folder, and asks no network.

    It reads the environment once in a process, so what an earlier test has set up goes first, and this one at the end.
    """
    wandb.teardown()
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (("MODE", "offline"), ("SILENT", "true"), ("CONSOLE", "off")):
            patch.setenv(f"WANDB_{name}", value)
        for name in ("DIR", "CACHE_DIR", "DATA_DIR", "CONFIG_DIR", "ARTIFACT_DIR"):
            patch.setenv(f"WANDB_{name}", str(folder))
        for name in ("PROJECT", "RUN_ID"):
            patch.delenv(f"WANDB_{name}", raising=False)
        yield folder
        wandb.teardown()


@dataclass
class OfflineRun:
    """What one run wrote."""

    project: str = ""
    run_id: str = ""
    name: str = ""
    group: str = ""
    notes: str = ""
    tags: list[str] = field(default_factory=list)
    config: dict[str, Any] = field(default_factory=dict)
    #: Rows in their order
    history: list[dict[str, Any]] = field(default_factory=list)
    #: Names of x axes, by metric or pattern
    step_metrics: dict[str, str] = field(default_factory=dict)
    summary: dict[str, Any] = field(default_factory=dict)
    #: Titles, texts and levels
    alerts: list[tuple[str, str, str]] = field(default_factory=list)
    artifacts: list[Any] = field(default_factory=list)
    #: ``None`` when the run was not finished
    exit_code: int | None = None

    def rows_with(self, name: str) -> list[dict[str, Any]]:
        return [row for row in self.history if name in row]

    def curve(self, name: str, x: str = "time/total_timesteps") -> list[tuple[Any, Any]]:
        return [(row[x], row[name]) for row in self.rows_with(name)]


def read_runs(folder: Path) -> list[OfflineRun]:
    """
    :param folder: that has the folder ``wandb``
    :return: its runs, the oldest first
    """
    files = sorted(folder.glob("wandb/offline-run-*/*.wandb"), key=lambda path: path.stat().st_mtime_ns)
    return [read_run(path) for path in files]


def read_run(path: Path) -> OfflineRun:
    run = OfflineRun()
    for payload in payloads(path.read_bytes()):
        record = Record()
        record.ParseFromString(payload)
        kind = record.WhichOneof("record_type")
        content = getattr(record, kind) if kind else None
        if kind == "run":
            _read_start(run, content)
        elif kind == "config":
            run.config.update(_values(content.update))
        elif kind == "history":
            run.history.append(_values(content.item))
        elif kind == "metric":
            run.step_metrics[content.name or content.glob_name] = content.step_metric
        elif kind == "summary":
            run.summary.update(_values(content.update))
        elif kind == "alert":
            run.alerts.append((content.title, content.text, content.level))
        elif kind == "artifact":
            run.artifacts.append(content)
        elif kind == "exit":
            run.exit_code = content.exit_code
    return run


def _read_start(run: OfflineRun, content: Any) -> None:
    run.project, run.run_id, run.name = content.project, content.run_id, content.display_name
    run.group, run.notes, run.tags = content.run_group, content.notes, list(content.tags)
    run.config.update(_values(content.config.update))


def _values(items: Any) -> dict[str, Any]:
    """Histograms and the like come in pieces, with the path to each."""
    values: dict[str, Any] = {}
    for item in items:
        *path, last = [item.key] if item.key else item.nested_key
        place = values
        for name in path:
            place = place.setdefault(name, {})
        place[last] = json.loads(item.value_json)
    return values
