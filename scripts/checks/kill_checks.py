"""What must be true of a run folder after its training was killed: for ``kills.py``."""

from __future__ import annotations

import csv
import json
import pickle
import warnings
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

from sb3_ext import PPOExt
from sb3_ext.runs.agents.bundle import RESUME_FILE
from sb3_ext.runs.agents.checkpoint import find_checkpoints
from sb3_ext.runs.registry import Registry

__all__ = ["check_folder", "check_resumed"]


def check_folder(log_folder: Path, run: Path) -> Iterator[str]:
    """Yields what is wrong with the files that a killed training left."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        entries = {entry["folder"]: entry for entry in Registry(log_folder).entries()}
    facts = json.loads((run / "run.json").read_text(encoding="utf-8"))
    state = entries[run.relative_to(log_folder).as_posix()]["state"]
    if state != (expected := "killed" if facts["state"] == "running" else facts["state"]):
        yield f"the registry says {state} of a run that is {expected}"
    for name in ("progress.csv", "progress.json"):
        yield from _check_lines(run / name, is_last_whole=False)
    for path in run.glob("[!.]*.zip"):
        if path.name != RESUME_FILE:
            PPOExt.load(path, device="cpu")
    for path in run.rglob("[!.]*.pkl"):
        with path.open("rb") as file:
            pickle.load(file)
    for checkpoint in find_checkpoints(run):
        if checkpoint.record.is_file():
            checkpoint.read_record()


def check_resumed(run: Path, before: int) -> Iterator[str]:
    """
    Yields what is wrong after a training was resumed.

    :param before: timesteps when it was killed
    """
    for name in ("progress.csv", "progress.json"):
        yield from _check_lines(run / name, is_last_whole=True)
    steps = rollout_steps(run)
    if any(later <= earlier for earlier, later in pairwise(steps)):
        yield f"progress.csv: timesteps don't increase: {steps}"
    if not steps or steps[-1] <= before:
        yield f"it was not continued: {steps[-1:]} steps, {before} before"
    left = [path.name for path in run.parent.parent.rglob(".unfinished-*")]
    if left:
        yield f"left behind: {', '.join(left)}"


def rollout_steps(run: Path) -> list[int]:
    """Timesteps of the rows that end a rollout; evaluations write rows too."""
    path = run / "progress.csv"
    if not path.exists():
        return []
    with path.open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row.get("time/fps") and row.get("time/total_timesteps")]
    return [int(float(row["time/total_timesteps"])) for row in rows]


def _check_lines(path: Path, is_last_whole: bool) -> Iterator[str]:
    if not path.exists():
        return
    text = path.read_text(encoding="utf-8")
    lines = text.splitlines()
    if text and not text.endswith("\n"):
        if is_last_whole:
            yield f"{path.name}: the last line is not whole"
        lines = lines[:-1]
    columns = len(lines[0].split(",")) if lines else 0
    for number, line in enumerate(lines, 1):
        try:
            is_whole = isinstance(json.loads(line), dict) if path.suffix == ".json" else line.count(",") + 1 == columns
        except ValueError:
            is_whole = False
        if not is_whole:
            yield f"{path.name}: line {number} is not whole: {line[:80]}"
