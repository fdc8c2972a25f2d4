"""Reads what a training logged: metrics (``progress.csv`` or ``progress.json``) and episodes (``Monitor``'s files).

A training that was killed leaves half a row at the end, and a broken one leaves NaN: neither must hide the rest. A long
one leaves gigabytes, which are never in memory as a whole.
"""

import json
import math
import os
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from sb3_ext.metrics.curves import BoundedCurve, Series
from sb3_ext.runs.csv_blocks import Block, Column, read_csv_blocks
from sb3_ext.runs.files import PROGRESS_FILES
from sb3_ext.runs.plain_files import as_number, to_number

__all__ = ["MAX_POINTS", "WINDOW", "Episodes", "Progress", "read_episodes", "read_progress"]

_STEP, _SECONDS = "time/total_timesteps", "time/time_elapsed"
#: The step of the evaluated weights, which may be earlier than that of the row
_EVAL_STEP = "eval/step"
#: Points of a curve, at most about this many
MAX_POINTS = 10_000
#: Rows of a JSON file that are read at once
_BLOCK_ROWS = 4096
#: A score is the mean of this many episodes, as in SB3
WINDOW = 100
#: Longer episodes are a mistake in the file
_LONGEST = 10**12


class Progress:
    """Metrics of the latest training in a file. When another one appends to it, clock and steps start again."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.n_rows = 0
        #: Lines that could not be read, such as the last one of a training that was killed
        self.n_broken = 0
        #: Rows of earlier trainings, which are left out
        self.n_earlier = 0
        #: By name; long curves leave out points, and count all values
        self.curves: dict[str, BoundedCurve] = {}
        self._latest = {_STEP: -math.inf, _SECONDS: -math.inf}
        self._step = 0

    @cached_property
    def series(self) -> dict[str, Series]:
        """Points of the curves, by name, when all blocks are added."""
        return {name: curve.series() for name, curve in self.curves.items()}

    def latest(self, name: str) -> float | None:
        """:return: latest value of a metric; ``None`` when it was never logged"""
        return float(self.series[name].values[-1]) if name in self.series else None

    def add(self, block: Block) -> None:
        self.n_broken += block.n_broken
        if not block.n_rows:
            return
        begin = self._beginning_in(block)
        if begin is not None:
            self.n_earlier += self.n_rows + begin
            self.n_rows, self._step = -begin, 0
            self.curves = {}
        self.n_rows += block.n_rows
        steps, eval_steps = self._steps_of(block, begin or 0)
        for name, (rows, values) in block.columns.items():
            if begin:
                rows, values = rows[rows >= begin], values[rows >= begin]
            if len(rows):
                of_rows = eval_steps if name.startswith("eval/") else steps
                self.curves.setdefault(name, BoundedCurve(MAX_POINTS)).extend(of_rows[rows], values)

    def _beginning_in(self, block: Block) -> int | None:
        """The last row at which both clock and steps go back."""
        goes_back = np.ones(block.n_rows, dtype=bool)
        for name, before in self._latest.items():
            numbers = _filled(block.columns.get(name), block.n_rows, before)
            goes_back &= numbers < np.concatenate([[before], numbers[:-1]])
            self._latest[name] = float(numbers[-1])
        places = np.flatnonzero(goes_back)
        return int(places[-1]) if len(places) else None

    def _steps_of(self, block: Block, begin: int) -> tuple[np.ndarray, np.ndarray]:
        """A row without a step, such as that of the last update, has the step of the row before."""
        own = _possible_steps(block.columns.get(_STEP), begin)
        steps = _filled(own, block.n_rows, self._step).astype(np.int64)
        self._step = int(steps[-1])
        eval_steps = steps.copy()
        rows, values = _possible_steps(block.columns.get(_EVAL_STEP), begin)
        eval_steps[rows] = values.astype(np.int64)
        return steps, eval_steps


def read_progress(folder: str | os.PathLike[str]) -> Progress:
    """:return: what was logged in a run folder; empty and without a name when there is no file"""
    readers: tuple[Callable[[Path], Iterable[Block]], ...] = (read_csv_blocks, _json_blocks)
    found: list[Progress] = []
    for name, read_blocks in zip(PROGRESS_FILES, readers, strict=True):
        path = Path(folder) / name
        if path.is_file():
            found.append(progress := Progress(name))
            for block in read_blocks(path):
                progress.add(block)
            if found[0].n_rows and found[0].n_broken <= 1:
                break  # at most the last line is unfinished: the other file has the same rows
    return max(found, key=lambda progress: progress.n_rows, default=Progress(""))


def _json_blocks(path: Path) -> Iterator[Block]:
    # newline="\n": a carriage return in a text doesn't end a row
    with path.open(encoding="utf-8", errors="replace", newline="\n") as file:
        while lines := list(islice(file, _BLOCK_ROWS)):
            yield _parse_json([line for line in lines if line.strip()])


def _parse_json(lines: list[str]) -> Block:
    columns: dict[str, tuple[list[int], list[float]]] = {}
    n_rows = 0
    for line in lines:
        row = _parse_row(line)
        if row is None:
            continue
        for name, value in row.items():
            number = value if type(value) is float else to_number(value)
            if number is not None:
                rows, values = columns.setdefault(name, ([], []))
                rows.append(n_rows)
                values.append(number)
        n_rows += 1
    arrays = {name: Column(np.array(rows), np.array(values)) for name, (rows, values) in columns.items()}
    return Block(n_rows, len(lines) - n_rows, arrays)


def _possible_steps(column: Column | None, begin: int) -> Column:
    if column is None:
        return Column(np.empty(0, dtype=np.int64), np.empty(0))
    kept = (np.abs(column.values) < 2**63) & (column.rows >= begin)
    return Column(column.rows[kept], column.values[kept])


def _filled(column: Column | None, n_rows: int, before: float) -> np.ndarray:
    """One number per row: its own, or that of the row before."""
    numbers = np.full(n_rows, before, dtype=float)
    if column is not None and len(column.rows):
        places = np.zeros(n_rows, dtype=np.int64)
        places[column.rows] = np.arange(1, len(column.rows) + 1)
        numbers = np.append(before, column.values)[np.maximum.accumulate(places)]
    return numbers


class Episodes(NamedTuple):
    """Finished episodes, ordered by their end."""

    #: Timesteps of all environments when the episode ended. They step together: one environment's steps times n_envs
    steps: np.ndarray
    scores: np.ndarray
    n_envs: int
    #: From the start of the first environment to the end of the last episode
    seconds: float
    env_id: str | None
    #: Lines that could not be read
    n_broken: int

    def mean_scores(self) -> Series:
        """:return: at the end of each episode, the mean score of the last 100 episodes"""
        sums = np.concatenate([[0.0], np.cumsum(self.scores)])
        ends = np.arange(1, len(self.scores) + 1)
        starts = np.maximum(ends - WINDOW, 0)
        return Series(self.steps, (sums[ends] - sums[starts]) / (ends - starts))


def read_episodes(folder: str | os.PathLike[str]) -> Episodes:
    """:return: the episodes of a run folder; none without files of ``Monitor``"""
    paths = sorted(Path(folder).glob("*monitor.csv"))
    if not paths:
        none = np.empty(0, dtype=np.int64)
        return Episodes(none, none, 0, math.nan, None, 0)
    headers = [_header(path) for path in paths]
    episodes, n_broken = zip(*(_read_monitor(path) for path in paths), strict=True)
    known = [as_number(header.get("t_start")) for header in headers]
    starts = [math.nan if start is None else start for start in known]
    ends = [start + float(np.max(times)) for start, (_, _, times) in zip(starts, episodes, strict=True) if len(times)]
    steps = np.concatenate([np.cumsum(lengths.astype(np.int64)) * len(paths) for _, lengths, _ in episodes])
    order = np.argsort(steps, kind="stable")
    return Episodes(
        steps[order],
        np.concatenate([scores for scores, _, _ in episodes])[order],
        len(paths),
        float(np.max(ends) - np.min(starts)) if ends else math.nan,
        next((env_id for header in headers if isinstance(env_id := header.get("env_id"), str)), None),
        sum(n_broken),
    )


def _read_monitor(path: Path) -> tuple[np.ndarray, int]:
    """Scores, lengths and seconds of the episodes, and the number of broken lines."""
    parts, n_broken = [np.empty((3, 0))], 0
    for block in read_csv_blocks(path, skip="#"):
        numbers = np.full((3, block.n_rows), math.nan)
        is_there = np.zeros((3, block.n_rows), dtype=bool)
        for index, name in enumerate("rlt"):
            rows, values = block.columns.get(name, ([], []))
            numbers[index, rows], is_there[index, rows] = values, True
        whole = is_there.all(axis=0) & (numbers[1] >= 0) & (numbers[1] < _LONGEST)
        parts.append(numbers[:, whole])
        n_broken += block.n_broken + int((~whole).sum())
    return np.concatenate(parts, axis=1), n_broken


def _header(path: Path) -> dict[str, Any]:
    with path.open(encoding="utf-8", errors="replace") as file:
        line = file.readline()
    return _parse_row(line[1:]) or {} if line.startswith("#") else {}


def _parse_row(line: str) -> dict[str, Any] | None:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return row if isinstance(row, dict) else None
