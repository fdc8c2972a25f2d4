"""Reads back the rows of metrics that a training wrote into its folder: ``progress.json`` or ``progress.csv``.

SB3's logger writes them, a row at a time. A training that was killed leaves half a row at the end, and a broken one
leaves NaN: neither must hide the rest.
"""

from __future__ import annotations

import csv
import io
import json
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from sb3_ext.runs.small_files import as_number

__all__ = ["PROGRESS_FILES", "Progress", "Series", "read_progress"]

#: The JSON comes first: half a number of a CSV still looks like a number
PROGRESS_FILES = ("progress.json", "progress.csv")
_STEP, _SECONDS = "time/total_timesteps", "time/time_elapsed"
#: A result that comes later than the weights it is of has their step
_EVAL_STEP = "eval/step"


class Series(NamedTuple):
    """
    One metric over a training.

    :param steps: timesteps, never decreasing
    :param values: as many; NaN and infinity are kept
    """

    steps: np.ndarray
    values: np.ndarray

    @property
    def finite(self) -> Series:
        """Without NaN and infinity."""
        kept = np.isfinite(self.values)
        return Series(self.steps[kept], self.values[kept])

    @property
    def is_constant(self) -> bool:
        """Whether all values are the same number."""
        return bool(len(self.values)) and bool(np.all(self.values == self.values[0]))


@dataclass(frozen=True)
class Progress:
    """
    :param file: name of the file that this is from
    :param n_rows: its rows
    :param n_broken: lines that could not be read, such as the last one of a training that was killed
    :param n_earlier: rows of trainings before, which began in the same folder and are left out
    :param series: what was logged, by name
    """

    file: str
    n_rows: int = 0
    n_broken: int = 0
    n_earlier: int = 0
    series: Mapping[str, Series] = field(default_factory=dict)

    def latest(self, name: str) -> float | None:
        """
        :param name: of a metric
        :return: its latest value; ``None`` when it was never logged
        """
        return float(self.series[name].values[-1]) if name in self.series else None


def read_progress(folder: str | os.PathLike[str]) -> Progress | None:
    """
    :param folder: of a run
    :return: what was logged; ``None`` when there is no file
    """
    found = []
    for name, parse in zip(PROGRESS_FILES, (_json_rows, _csv_rows), strict=True):
        path = Path(folder) / name
        if path.is_file():
            # newline="": a carriage return in a text doesn't end a row
            with path.open(encoding="utf-8", errors="replace", newline="") as file:
                rows, n_broken = parse(file.read())
            latest = _latest_training(rows)
            found.append(Progress(name, len(latest), n_broken, len(rows) - len(latest), _columns(latest)))
    # Of two with as many rows it is the first
    return max(found, key=lambda progress: progress.n_rows, default=None)


def _json_rows(text: str) -> tuple[list[dict[str, float]], int]:
    rows, n_broken = [], 0
    for line in text.split("\n"):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            row = None
        if isinstance(row, dict):
            rows.append(_numbers(row.items()))
        else:
            n_broken += 1
    return rows, n_broken


def _csv_rows(text: str) -> tuple[list[dict[str, float]], int]:
    whole, _, half = text.rpartition("\n")
    n_broken = int(bool(half))
    reader = csv.reader(io.StringIO(whole))
    names = next(reader, [])
    rows = []
    try:
        for cells in reader:
            if len(cells) == len(names):
                rows.append(_numbers(zip(names, cells, strict=True)))
            elif cells:
                n_broken += 1
    except csv.Error:
        n_broken += 1
    return rows, n_broken


def _numbers(row: Iterable[tuple[str, Any]]) -> dict[str, float]:
    """What of a row is a number; texts, histograms and empty cells are left out."""
    numbers = {}
    for name, value in row:
        if value in ("True", "False"):
            value = value == "True"
        if isinstance(value, (bool, int, float, str)):
            try:
                numbers[name] = float(value)
            except (ValueError, OverflowError):
                continue
    return numbers


def _latest_training(rows: Sequence[Mapping[str, float]]) -> Sequence[Mapping[str, float]]:
    """A new training in the same folder adds to the file; its clock and its steps begin again."""
    begin, step, seconds = 0, -math.inf, -math.inf
    for index, row in enumerate(rows):
        now, at = row.get(_SECONDS, seconds), row.get(_STEP, step)
        if now < seconds and at < step:
            begin = index
        seconds, step = now, at
    return rows[begin:]


def _columns(rows: Iterable[Mapping[str, float]]) -> dict[str, Series]:
    columns: dict[str, tuple[list[int], list[float]]] = {}
    step = 0
    for row in rows:
        # A row without its step, such as that of the last update, belongs to the step of the one before
        step = _whole(row.get(_STEP), step)
        eval_step = _whole(row.get(_EVAL_STEP), step)
        for name, value in row.items():
            steps, values = columns.setdefault(name, ([], []))
            steps.append(eval_step if name.startswith("eval/") else step)
            values.append(value)
    return {name: _sorted(*column) for name, column in columns.items()}


def _whole(number: float | None, otherwise: int) -> int:
    return otherwise if number is None or as_number(number) is None else int(number)


def _sorted(steps: list[int], values: list[float]) -> Series:
    order = np.argsort(steps, kind="stable")
    return Series(np.asarray(steps, dtype=np.int64)[order], np.asarray(values, dtype=np.float64)[order])
