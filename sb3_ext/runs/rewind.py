"""Cuts the log files of a run back to where they were at an earlier step, so that a resumed training continues them.

A killed training has logged more than its last checkpoint knows. Files are cut in place, by one call of the system: a
kill leaves the old file or the new one.
"""

from __future__ import annotations

import csv
import json
import os
import time
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sb3_ext.runs.files import atomic_write
from sb3_ext.runs.plain_files import as_number

if TYPE_CHECKING:
    from stable_baselines3.common.vec_env import VecEnv

__all__ = ["continue_monitor_time", "log_positions", "monitor_kwargs", "rewind_logs"]

_STEP = "time/total_timesteps"
#: Finds the timesteps in a line; ``None`` in a header
_StepOf = Callable[[str], float | None]


def log_positions(folder: str | os.PathLike[str], step: int) -> dict[str, Any]:
    """
    :param step: timesteps of the training now
    :return: data for :func:`rewind_logs` that can be pickled
    """
    # The other files have their steps in them
    return {"step": step, "sizes": {path.name: path.stat().st_size for path in Path(folder).glob("*monitor.csv")}}


def rewind_logs(folder: str | os.PathLike[str], positions: Mapping[str, Any]) -> None:
    """
    Remove what was logged later: rows of ``progress.csv`` and ``progress.json``, episodes in Monitor's files, and
    evaluations in ``evaluations.npz``. Call this before the environments and the logger open these files.

    :param positions: from :func:`log_positions`
    """
    folder, step = Path(folder), positions["step"]
    for name, size in positions["sizes"].items():
        _truncate(folder / name, size)
    for name, step_of in (("progress.csv", _csv_step), ("progress.json", lambda header: _json_step)):
        if (folder / name).is_file():
            _cut_rows(folder / name, step_of, step)
    _cut_evaluations(folder / "evaluations.npz", step)


def monitor_kwargs(folder: str | os.PathLike[str], n_envs: int) -> dict[str, Any]:
    """
    :return: arguments of SB3's ``Monitor`` to append to the files of a run that is resumed; empty if there are none for
        some of the environments, because it would append without writing a header
    """
    files = [Path(folder) / f"{index}.monitor.csv" for index in range(n_envs)]
    can_append = all(file.is_file() and file.stat().st_size for file in files)
    return {"override_existing": False} if can_append else {}


def continue_monitor_time(env: VecEnv, seconds: float) -> None:
    """
    Let the times in Monitor's files go on in new environments. Those whose state is restored do it by themselves.

    :param seconds: of training before
    """
    if env.has_attr("t_start"):
        env.env_method("set_wrapper_attr", "t_start", time.time() - seconds)


def _truncate(path: Path, size: int) -> None:
    if path.is_file() and path.stat().st_size > size:
        os.truncate(path, size)


def _cut_rows(path: Path, find: Callable[[str], _StepOf], step: int) -> None:
    """Rows without a step, such as that of the last update, belong to the row before."""
    with path.open("rb") as file:
        first = file.readline()
        step_of = find(first.decode(errors="replace"))
        file.seek(0)
        end = position = 0
        is_kept = True
        for line in file:
            position += len(line)
            at = step_of(line.decode(errors="replace"))
            is_kept = is_kept if at is None else at <= step
            if is_kept and line.endswith(b"\n"):
                end = position
    _truncate(path, end)


def _csv_step(header: str) -> _StepOf:
    names = header.rstrip("\r\n").split(",")
    index = names.index(_STEP) if _STEP in names else len(names)

    def step_of(line: str) -> float | None:
        cells = line.split(",") if '"' not in line else next(csv.reader([line]), [])
        return as_number(cells[index]) if index < len(cells) else None

    return step_of


def _json_step(line: str) -> float | None:
    try:
        row = json.loads(line)
    except ValueError:
        return None
    return as_number(row.get(_STEP)) if isinstance(row, dict) else None


def _cut_evaluations(path: Path, step: int) -> None:
    try:
        with np.load(path, allow_pickle=False) as saved:
            arrays = {name: saved[name] for name in saved.files}
        kept = arrays["timesteps"] <= step
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
        return  # there is none, or SB3 was killed while it wrote it, and will write it again
    if kept.all():
        return
    if not kept.any():
        path.unlink()
        return
    with atomic_write(path) as unfinished, unfinished.open("wb") as file:
        np.savez(file, **{name: array[kept] if len(array) == len(kept) else array for name, array in arrays.items()})
