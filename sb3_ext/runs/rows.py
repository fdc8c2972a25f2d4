"""The rows of metrics that a logger writes: sources add to them before table, files and trackers get them.

SB3's logger collects numbers by name and passes them, at each ``dump``, to its output formats in turn. ``RowStream`` is
the first: the others write what it adds. Our CSV and JSON formats append to their files, where SB3's overwrite them.
"""

from __future__ import annotations

import os
import warnings
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from stable_baselines3.common.logger import (
    CSVOutputFormat,
    JSONOutputFormat,
    KVWriter,
    Logger,
    filter_excluded_keys,
)

from sb3_ext.common.full_disk import WholeLines, tolerate_full_disk
from sb3_ext.metrics.curves import CurveStore
from sb3_ext.runs.files import atomic_write

if TYPE_CHECKING:
    from sb3_ext.runs.run import Run

__all__ = ["AppendedCSV", "Guard", "Row", "RowSource", "RowStream", "add_log_files", "dump_row", "scalars"]

#: Bytes to search at a time for the last line; a long training has gigabytes
_PIECE = 1 << 16
_NUMBERS = (bool, int, float, np.number, np.bool_)
T = TypeVar("T")
#: Is given the step and what the row has so far, and returns what to add to it
RowSource = Callable[[int, Mapping[str, Any]], Mapping[str, Any]]


@dataclass(frozen=True)
class Row:
    """Timesteps when it was written, and its numbers by name."""

    step: int
    values: Mapping[str, float] = field(default_factory=dict)


class Guard:
    """Runs parts that a training can do without. One that raises is switched off, with a warning."""

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._off: set[str] = set()

    def run(self, name: str, compute: Callable[..., T], *args: Any) -> T | None:
        """:return: ``compute(*args)``; ``None`` when this part raises, now or earlier"""
        if name in self._off:
            return None
        try:
            return compute(*args)
        # A rule or a metric may raise anything, and training must go on
        except Exception as error:
            self._off.add(name)
            warnings.warn(
                f"{self._kind} {name} raised {type(error).__name__}: {error}. It is switched off for the rest of the "
                "training, which continues.",
                stacklevel=2,
            )
            return None


class RowStream(KVWriter):
    """The first of a logger's formats: all others write what it adds to a row. There is one per logger."""

    def __init__(self, logger: Logger) -> None:
        self._logger = logger
        self._guard = Guard("Metrics")
        #: For callbacks whose state can't be saved
        self.state_guard = Guard("The state of")
        self._sources: list[RowSource] = []
        self._observers: list[RowSource] = []
        #: The training that writes them
        self.run: Run | None = None
        self.curves = CurveStore()
        self.latest = Row(0)
        #: For models that were evaluated while training went on
        self.recent: deque[Row] = deque(maxlen=64)
        #: Iterations before this training was resumed, and its timesteps then. SB3 counts from 1 again
        self.iterations_before, self.resumed_at = 0, 0

    @classmethod
    def of(cls, logger: Logger) -> RowStream:
        """The logger's rows, added to it at the first call."""
        for output_format in logger.output_formats:
            if isinstance(output_format, RowStream):
                return output_format
        rows = cls(logger)
        for output_format in logger.output_formats:
            output_format.write = partial(_write, output_format.write, logger.dir)  # type: ignore[method-assign]
        logger.output_formats.insert(0, rows)
        return rows

    def add_source(self, source: RowSource) -> None:
        """Ask ``source`` for more numbers before each row of this training is written."""
        self._sources.append(source)

    def add_observer(self, observer: RowSource) -> None:
        """Ask ``observer`` after all sources; it sees what they added."""
        self._observers.append(observer)

    def forget(self) -> None:
        """The training has ended: its sources and observers don't see the rows of the next one."""
        self.run = None
        self._sources.clear()
        self._observers.clear()
        self.recent.clear()
        self.iterations_before = self.resumed_at = 0

    def state(self) -> dict[str, Any]:
        """The rows so far, and what was recorded for the next one. Histograms and the like are left out."""
        pending = {name: value for name, value in self._logger.name_to_value.items() if _is_plain(value)}
        return {
            "recent": [(row.step, row.values) for row in self.recent],
            "curves": self.curves.state(),
            "pending": pending,
            "counts": {name: self._logger.name_to_count[name] for name in pending},
            "excluded": {name: self._logger.name_to_excluded.get(name, ()) for name in pending},
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue after the rows of a training that was interrupted."""
        self.recent.extend(Row(*row) for row in state["recent"])
        if self.recent:
            self.latest = self.recent[-1]
        self.curves.restore(state["curves"])
        self._logger.name_to_value.update(state["pending"])
        self._logger.name_to_count.update(state["counts"])
        self._logger.name_to_excluded.update(state["excluded"])

    def flush(self, step: int) -> None:
        """Write what was recorded since the last row, if anything was."""
        if self._logger.name_to_value:
            dump_row(self._logger, step)

    def write(self, key_values: dict[str, Any], key_excluded: dict[str, tuple[str, ...]], step: int = 0) -> None:
        if "time/iterations" in key_values:
            key_values["time/iterations"] += self.iterations_before
        for source in self._sources:
            found = self._guard.run(getattr(source, "__qualname__", repr(source)), source, step, key_values)
            self._record(found or {})
        for observer in self._observers:
            self._record(observer(step, key_values))
        self.latest = Row(step, scalars(key_values))
        self.recent.append(self.latest)
        self.curves.add(step, self.latest.values)

    def _record(self, found: Mapping[str, Any]) -> None:
        for name, value in found.items():
            self._logger.record(name, value)

    def close(self) -> None:
        """Nothing is held open."""


def _write(write: Callable[..., None], folder: str | None, *args: Any) -> None:
    with tolerate_full_disk(folder):
        write(*args)


def dump_row(logger: Logger, step: int) -> None:
    """Write a row now, with the timesteps, which files would not have otherwise."""
    logger.record("time/total_timesteps", step, exclude="tensorboard")
    logger.dump(step)


def scalars(values: Mapping[str, Any]) -> dict[str, float]:
    """The values that are numbers: no histograms, videos and the like."""
    numbers: dict[str, float] = {}
    for name, value in values.items():
        if type(value) is float:  # most are, and this is the fastest way to know
            numbers[name] = value
        elif isinstance(value, _NUMBERS) or getattr(value, "ndim", None) == 0:
            numbers[name] = float(value)
    return numbers


def _is_plain(value: Any) -> bool:
    return isinstance(value, str | int | float | np.number | np.bool_)


class AppendedJSON(JSONOutputFormat):
    """One JSON object per row, appended to the file."""

    def __init__(self, filename: str) -> None:
        _drop_unfinished_line(Path(filename))
        self.file = WholeLines(filename)  # type: ignore[assignment]


class AppendedCSV(CSVOutputFormat):
    """One line per row and one column per metric, appended to the file."""

    def __init__(self, filename: str) -> None:
        path = Path(filename)
        _drop_unfinished_line(path)
        path.touch()
        self.separator = ","
        self.quotechar = '"'
        with path.open(encoding="utf-8") as file:
            header = file.readline().rstrip("\n")
        self.keys = header.split(self.separator) if header else []
        self.file = WholeLines(path)  # type: ignore[assignment]

    def write(self, key_values: dict[str, Any], key_excluded: dict[str, tuple[str, ...]], step: int = 0) -> None:
        known = set(self.keys)
        new = [key for key in filter_excluded_keys(key_values, key_excluded, "csv") if key not in known]
        with tolerate_full_disk(Path(self.file.name).parent):
            if new:
                self._add_columns(new)
            super().write(key_values, key_excluded, step)

    def _add_columns(self, names: list[str]) -> None:
        # SB3 reads all lines into memory and overwrites them, which leaves a broken file if it is killed meanwhile
        path = Path(self.file.name)
        with atomic_write(path) as unfinished:
            with path.open(encoding="utf-8") as old, unfinished.open("w", encoding="utf-8") as new:
                new.write(self.separator.join([*self.keys, *names]) + "\n")
                old.readline()
                for line in old:
                    new.write(line.rstrip("\n") + self.separator * len(names) + "\n")
        self.keys += names
        self.file.close()
        self.file = WholeLines(path)  # type: ignore[assignment]


def add_log_files(logger: Logger, folder: str | Path) -> list[KVWriter]:
    """Also append rows to ``progress.csv`` and ``progress.json``; returns the formats that the logger did not have."""
    Path(folder).mkdir(parents=True, exist_ok=True)
    added: list[KVWriter] = []
    for name, make in (("progress.csv", AppendedCSV), ("progress.json", AppendedJSON)):
        path = Path(folder) / name
        if not _writes_to(logger, path):
            added.append(make(str(path)))
    logger.output_formats += added
    return added


def _writes_to(logger: Logger, path: Path) -> bool:
    """Whether SB3 writes there too, because of ``configure(folder, ["csv"])``."""
    files = [getattr(output_format, "file", None) for output_format in logger.output_formats]
    names = [getattr(file, "name", None) for file in files]
    return any(isinstance(name, str) and Path(name).resolve() == path.resolve() for name in names)


def _drop_unfinished_line(path: Path) -> None:
    """A killed training may have left half a row."""
    if not path.exists():
        return
    with open(path, "rb+") as file:
        end = file.seek(0, os.SEEK_END)
        while end > 0:
            start = max(end - _PIECE, 0)
            file.seek(start)
            newline = file.read(end - start).rfind(b"\n")
            if newline >= 0:
                file.truncate(start + newline + 1)
                return
            end = start
        file.truncate(0)
