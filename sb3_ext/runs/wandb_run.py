"""Runs of Weights & Biases as run folders: downloaded, or made from an offline run on this machine.

A run of ours was uploaded as a whole. Of any other run, the folder gets what W&B has: its config, its history, its
model. W&B's content may come from someone else: only plain names become files, and a model is a pickle, whose loading
runs code of whoever made it.
"""

import csv
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from sb3_ext.common.clean_text import say
from sb3_ext.common.usage_error import UsageError
from sb3_ext.runs.files import RUN_FILE, write_json
from sb3_ext.runs.run_zip import RUN_FILE as TRACKING_FILE
from sb3_ext.runs.run_zip import (
    ZIP_TYPE,
    download_run,
    find_tracked,
    is_plain,
    make_run_folder,
    split_address,
    tracked_id,
)

__all__ = ["fetch_run", "payloads", "tracking_environment"]

_STEPS = "time/total_timesteps"
#: What W&B reads from TensorBoard's files has this axis
_SYNCED_STEPS = "global_step"
#: States of a run on W&B, and ours
_STATES = {"finished": "finished", "running": "running", "killed": "interrupted"}
_MAX_MB = 2000
#: Bytes of a block of a LevelDB log, and of the head before each piece of a record in it
_BLOCK, _HEAD = 32768, 7
#: Pieces that a record ends with: all of it, and its last one
_FULL, _LAST = 1, 4


@dataclass
class _Tracked:
    """A run as W&B knows it. ``rows``: its history; ``model``: its model's files."""

    id: str
    url: str | None = None
    state: str = "unknown"
    config: dict[str, Any] = field(default_factory=dict)
    rows: list[Mapping[str, Any]] = field(default_factory=list)
    model: list[Path] = field(default_factory=list)


def tracking_environment(folder: str | os.PathLike[str]) -> dict[str, str]:
    """
    Environment variables with which W&B continues the run of a run folder, instead of starting another one. Set them
    before ``wandb`` is used.
    """
    run_id = tracked_id(folder, "wandb")
    return {} if run_id is None else {"WANDB_RUN_ID": run_id, "WANDB_RESUME": "allow"}


def fetch_run(name: str, log_folder: str | Path, api: Any = None) -> Path:
    """
    :param name: ``wandb:entity/project/id``, the address of a run's page, or a folder ``wandb/offline-run-…``
    :param api: default: ``wandb.Api()``
    :return: its run folder; it is downloaded if it is not in the log folder yet
    :raises UsageError: when there is no such run, or W&B can't be asked
    """
    import wandb

    if Path(name).is_dir():
        tracked = _read_offline(Path(name))
        return find_tracked(tracked.id, log_folder) or _write(tracked, log_folder)
    try:
        entity, project, run_id = split_address(name.removeprefix("wandb:"))
        local = find_tracked(run_id, log_folder)
        if local is not None:
            return local
        api = wandb.Api() if api is None else api
        with redirect_stdout(sys.stderr):  # stdout may be for JSON
            say(f"Downloading {entity}/{project}/{run_id} from W&B")
        if api.artifact_exists(f"{entity}/{project}/run-{run_id}:latest", type=ZIP_TYPE):
            return download_run(f"{entity}/{project}/{run_id}", log_folder, api)
        with tempfile.TemporaryDirectory() as temporary:
            return _write(_download(api.run(f"{entity}/{project}/{run_id}"), Path(temporary)), log_folder)
    except wandb.Error as error:
        raise UsageError(f"W&B: {error}\nCheck {name!r}, the network, and `wandb login`.") from None


def _download(run: Any, temporary: Path) -> _Tracked:
    tracked = _Tracked(run.id, run.url, run.state, dict(run.config), list(run.scan_history()))
    models = [artifact for artifact in run.logged_artifacts() if artifact.type == "model"]
    if models:
        if models[-1].size > _MAX_MB * 1e6:
            raise UsageError(f"The model of {run.url} has {models[-1].size / 1e6:,.0f} MB: at most {_MAX_MB:,}.")
        tracked.model = [path for path in Path(models[-1].download(root=str(temporary))).iterdir() if path.is_file()]
    return tracked


def _write(tracked: _Tracked, log_folder: str | Path) -> Path:
    config = tracked.config
    algo, env_id = str(config.get("algo") or "unknown"), str(config.get("env_id") or config.get("env") or "unknown")
    env_name = env_id.replace("/", "-")
    for name in (algo, env_name):
        if not is_plain(name):
            raise UsageError(f"The run {tracked.id} has {name!r} in its config; expected a plain name.")

    def fill(folder: Path) -> None:
        (folder / env_name).mkdir()
        if "saved_hyperparams" in config:  # by RL Zoo's --track
            args = {name: value for name, value in config.items() if name != "saved_hyperparams"}
            for file, content in (("args.yml", args), ("config.yml", config["saved_hyperparams"])):
                (folder / env_name / file).write_text(yaml.safe_dump(content), encoding="utf-8")
        for path in tracked.model:
            shutil.copy(path, folder / env_name if path.suffix == ".yml" else folder)
        if not any((folder / env_name).iterdir()):
            (folder / env_name).rmdir()
        steps = _write_history(tracked.rows, folder / "progress.csv")
        facts = {**config, "algo": algo, "env_id": env_id, "state": _STATES.get(tracked.state, "failed"), **steps}
        write_json(folder / RUN_FILE, {name: value for name, value in facts.items() if name != "saved_hyperparams"})
        write_json(folder / TRACKING_FILE, {"id": tracked.id, "url": tracked.url, "algo": algo, "env_id": env_id})

    return make_run_folder(log_folder, algo, f"{env_name}_1", fill)


def _write_history(rows: list[Mapping[str, Any]], path: Path) -> dict[str, Any]:
    """Only numbers, without W&B's own columns. Returns steps and seconds of the training."""
    numbers = [
        {name: value for name, value in row.items() if isinstance(value, int | float) and not name.startswith("_")}
        for row in rows
    ]
    if not any(_STEPS in row for row in numbers):
        numbers = [{_STEPS: row.pop(_SYNCED_STEPS), **row} if _SYNCED_STEPS in row else row for row in numbers]
    names = dict.fromkeys(name for row in numbers for name in row)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(names))
        writer.writeheader()
        writer.writerows(numbers)
    steps = max((row[_STEPS] for row in numbers if _STEPS in row), default=None)
    return {"steps": steps, "seconds": max((row.get("_runtime") or 0 for row in rows), default=None)}


def _read_offline(folder: Path) -> _Tracked:
    """What an offline run wrote; it may still be writing."""
    from wandb.proto.wandb_internal_pb2 import Record  # type: ignore[attr-defined]

    tracked = _Tracked("")
    for payload in payloads(next(folder.glob("*.wandb")).read_bytes()):
        record = Record()
        record.ParseFromString(payload)
        kind = record.WhichOneof("record_type")
        if kind == "run":
            tracked.id = record.run.run_id
            tracked.config.update(_values(record.run.config.update))
        elif kind == "config":
            tracked.config.update(_values(record.config.update))
        elif kind == "history":
            tracked.rows.append(_values(record.history.item))
        elif kind == "exit":
            tracked.state = "failed" if record.exit.exit_code else "finished"
    if not tracked.id:
        raise UsageError(f"{folder} has no run: its .wandb file is empty.")
    return tracked


def _values(items: Any) -> dict[str, Any]:
    """Without what comes in pieces, such as histograms."""
    return {item.key or item.nested_key[0]: json.loads(item.value_json) for item in items if not item.nested_key[1:]}


def payloads(data: bytes) -> Iterator[bytes]:
    """The records in a ``.wandb`` file, a LevelDB log."""
    at, pieces = _HEAD, []
    while at + _HEAD <= len(data):
        room = _BLOCK - at % _BLOCK
        length, kind = int.from_bytes(data[at + 4 : at + 6], "little"), data[at + 6]
        if room < _HEAD or kind == 0:
            at += room  # the rest of a block is empty
            continue
        if at + _HEAD + length > len(data):
            return  # not all of it is written yet
        pieces.append(data[at + _HEAD : at + _HEAD + length])
        at += _HEAD + length
        if kind in (_FULL, _LAST):
            yield b"".join(pieces)
            pieces = []
