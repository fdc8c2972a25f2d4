"""The runs of a log folder in one file, ``runs.jsonl``: one line per run, newest first.

Each run writes its line when it starts, when its score changes and when it ends, under a lock, and replaces the file at
once: readers need no lock. The file can be rebuilt from the run folders at any time. Imports little, so that commands
that list runs are quick.
"""

from __future__ import annotations

import json
import math
import os
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import Any

from sb3_ext.runs.alive import state_of
from sb3_ext.runs.files import RUN_FILE, atomic_write, remove_unfinished
from sb3_ext.runs.folders import find_folders

__all__ = ["LOG_FOLDER", "REGISTRY_FILE", "Registry", "read_facts"]

#: RL Zoo's default
LOG_FOLDER = "logs"
REGISTRY_FILE = "runs.jsonl"
#: Seconds to wait for other trainings that start or end
_PATIENCE = 20.0
#: Names and types of an entry; all but the folder may be ``None``
_TEXT, _NUMBER = (str,), (int, float)
_FIELDS: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(("id", "folder", "algo", "env", "state", "started"), _TEXT),
    **dict.fromkeys(("seed", "steps", "total_timesteps", "seconds", "score", "best_score", "threshold"), _NUMBER),
    "solved": (bool,),
    **dict.fromkeys(("stop_reason", "parent", "host"), _TEXT),
    **dict.fromkeys(("pid", "process_started"), _NUMBER),
}
Entry = dict[str, Any]


class Registry:
    """
    :param log_folder: the folder above ``<algo>/``, RL Zoo's ``-f``
    """

    def __init__(self, log_folder: str | os.PathLike[str] = LOG_FOLDER) -> None:
        self.folder = Path(log_folder)
        self.file = self.folder / REGISTRY_FILE

    def entries(self) -> list[Entry]:
        """
        All runs there are, newest first, with their state now: ``killed`` if a run did not end and its process is gone.
        A run that is not in the file is read from its folder; without ``run.json``, it has no score.
        """
        known = [entry for entry in self._read() if (self.folder / entry["folder"]).is_dir()]
        others = [self._read_run(run) for run in find_folders(self.folder, {entry["folder"] for entry in known})]
        entries = sorted([*others, *known], key=_age) if others else known
        # The folder of a run that has not ended may know more: the file could not always be written
        entries = [self._read_run(self.folder / e["folder"]) if e["state"] == "running" else e for e in entries]
        return [{**entry, "state": state_of(entry)} for entry in entries]

    def entry(self, run: str | os.PathLike[str]) -> Entry:
        """:return: what :meth:`rebuild` would write for a run, with its state now"""
        entry = self._read_run(Path(run), _read_logs(Path(run)) or {})
        return {**entry, "state": state_of(entry)}

    def update(self, run: str | os.PathLike[str], facts: Mapping[str, Any]) -> None:
        """
        Add a run, or replace its entry.

        :param run: its folder
        :param facts: contents of its ``run.json``
        :raises OSError: when the file can't be written; what it had stays
        """
        entry = self._entry(Path(run), facts)
        name = json.dumps(entry["folder"])
        with self._locked():
            # Other lines stay as they are, broken ones too
            lines = self._lines()
            old = {place: parsed for place, line in enumerate(lines) if name in line and (parsed := _parse(line))}
            places = [place for place, parsed in old.items() if parsed["folder"] == entry["folder"]]
            if places and old[places[0]]["id"] == entry["id"]:
                lines[places[0]] = json.dumps(entry)
            else:  # the number of a deleted run may be used again
                lines = [json.dumps(entry), *(line for place, line in enumerate(lines) if place not in places)]
            self._write(lines)

    def rebuild(self) -> list[Entry]:
        """Write the file anew from the run folders, also of runs without ``run.json``; returns :meth:`entries`."""
        # Logs take long to read, and those without run.json don't change our file: before the lock
        logged = {run: facts for run in find_folders(self.folder) if (facts := _read_logs(run))}
        with self._locked():
            runs = [self._read_run(run, logged.get(run, {})) for run in find_folders(self.folder)]
            self._write([json.dumps(entry) for entry in sorted(runs, key=_age)])
        return self.entries()

    def _lines(self) -> list[str]:
        try:
            return self.file.read_text(encoding="utf-8", errors="replace").rstrip("\n").split("\n")
        except FileNotFoundError:
            return []

    def _read(self) -> list[Entry]:
        lines = self._lines()
        parsed = [_parse(line) for line in lines]
        broken = [str(number) for number, entry in enumerate(parsed, 1) if entry is None and lines[number - 1].strip()]
        if broken:
            which = f"Line{'s' if len(broken) > 1 else ''} {', '.join(broken[:5])}{', …' if len(broken) > 5 else ''}"
            command = f"sb3-ext runs -f {self.folder} --rebuild"
            warnings.warn(f"{which} of {self.file} can't be read. To rebuild the file: {command}", stacklevel=2)
        return [entry for entry in parsed if entry is not None]

    def _write(self, lines: list[str]) -> None:
        remove_unfinished(self.folder, REGISTRY_FILE)  # of trainings that were killed; the lock is ours
        with atomic_write(self.file) as unfinished:
            unfinished.write_text("".join(f"{line}\n" for line in lines if line), encoding="utf-8")

    @contextmanager
    def _locked(self) -> Iterator[None]:
        from filelock import FileLock

        lock = FileLock(self.folder / f".{REGISTRY_FILE}.lock")
        with lock.acquire(timeout=_PATIENCE, poll_interval=0.01):
            yield

    def _read_run(self, run: Path, logged: Mapping[str, Any] = MappingProxyType({})) -> Entry:
        """
        :param logged: what its logs say, for what ``run.json`` does not
        """
        return self._entry(run, {**_read_names(run), **logged, **read_facts(run)})

    def _entry(self, run: Path, facts: Mapping[str, Any]) -> Entry:
        threshold = facts.get("threshold")
        known = {
            **facts,
            "folder": Path(os.path.relpath(run, self.folder)).as_posix(),
            "env": facts.get("env_id"),
            "threshold": facts.get("env_threshold") if threshold is None else threshold,
        }
        return {name: known.get(name) if _fits(known.get(name), kinds) else None for name, kinds in _FIELDS.items()}


def _fits(value: Any, kinds: tuple[type, ...]) -> bool:
    return isinstance(value, kinds) and not (isinstance(value, float) and not math.isfinite(value))


def _parse(line: str) -> Entry | None:
    """:return: ``None`` for a line that is broken"""
    try:
        entry = json.loads(line)
        folder = PurePosixPath(entry["folder"])
        values = {name: entry.get(name) for name in _FIELDS}
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None
    # A folder elsewhere must not be shown as a run, and not be deleted
    is_below = not folder.is_absolute() and ".." not in folder.parts
    return values if is_below and all(v is None or _fits(v, _FIELDS[name]) for name, v in values.items()) else None


def _age(entry: Entry) -> tuple[float, int]:
    """For sorting, newest first. Runs that started in the same second are in the order of their numbers."""
    try:
        started = datetime.fromisoformat(entry["started"] or "").timestamp()
    except (ValueError, OverflowError):
        started = 0.0
    number = entry["folder"].rpartition("_")[2]
    return -started, -int(number[:18]) if number.isdecimal() else 0


def read_facts(run: Path) -> dict[str, Any]:
    from sb3_ext.runs.plain_files import read_plain

    return read_plain(run / RUN_FILE, dict, []) or {}


def _read_names(run: Path) -> dict[str, Any]:
    """What names and times of files say of a run."""
    name, _, number = run.name.rpartition("_")
    files = [*run.glob("*/args.yml"), *run.glob("*.monitor.csv"), *run.glob("*.*")]
    started = datetime.fromtimestamp(files[0].stat().st_mtime, UTC).isoformat(timespec="seconds") if files else None
    return {"algo": run.parent.name, "env_id": name if number.isdecimal() else None, "started": started}


def _read_logs(run: Path) -> dict[str, Any] | None:
    """What the logs say of a run without ``run.json``, such as one of a stock algorithm; ``None`` if it has one."""
    if "id" in read_facts(run):
        return None
    from sb3_ext.runs.record import read_record

    record = read_record(run)
    scores = record.evaluation_scores if record.evaluations else record.settled_score
    values = [float(value) for value in scores.finite.values]
    threshold = None if record.threshold is None else record.threshold.value
    reached = None if not values else max(values) if record.evaluations else values[-1]
    known = {
        **{"algo": record.algo, "env_id": record.env_id, "seed": record.args.get("seed")},
        **{"steps": record.steps, "total_timesteps": record.planned_steps, "seconds": record.seconds},
        **({"score": values[-1], "best_score": max(values)} if values else {}),
        "threshold": threshold,
        "solved": None if threshold is None or reached is None else reached >= threshold,
    }
    return {name: value for name, value in known.items() if value is not None}
