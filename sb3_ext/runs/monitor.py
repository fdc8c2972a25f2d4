"""Reads the episodes of a training from ``Monitor``'s files: one file per environment, one line per episode.

Every training of RL Zoo has them, even if its logger wrote no file.
"""

import json
import math
import os
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from sb3_ext.metrics.curves import Series
from sb3_ext.runs.csv_blocks import read_csv_blocks
from sb3_ext.runs.plain_files import as_number

__all__ = ["WINDOW", "Episodes", "read_episodes"]

#: A score is the mean of this many episodes, as in SB3
WINDOW = 100
#: Longer episodes are a mistake in the file
_LONGEST = 10**12


class Episodes(NamedTuple):
    """
    Finished episodes, ordered by their end.

    :param steps: timesteps of all environments when the episode ended. They step together, so this is the environment's
        own steps times the number of environments
    :param seconds: from the start of the first environment to the end of the last episode
    :param n_broken: lines that could not be read, such as the last one of a training that was killed
    """

    steps: np.ndarray
    scores: np.ndarray
    n_envs: int
    seconds: float
    env_id: str | None
    n_broken: int

    def mean_scores(self) -> Series:
        """:return: at the end of each episode, the mean score of the last 100 episodes"""
        sums = np.concatenate([[0.0], np.cumsum(self.scores)])
        ends = np.arange(1, len(self.scores) + 1)
        starts = np.maximum(ends - WINDOW, 0)
        return Series(self.steps, (sums[ends] - sums[starts]) / (ends - starts))


class _MonitorFile(NamedTuple):
    header: dict[str, Any]
    scores: np.ndarray
    lengths: np.ndarray
    seconds: np.ndarray
    n_broken: int


def read_episodes(folder: str | os.PathLike[str]) -> Episodes:
    """:return: the episodes of a run folder; those of no environment when there is no file of ``Monitor``"""
    files = [_read(path) for path in sorted(Path(folder).glob("*monitor.csv"))]
    if not files:
        none = np.empty(0, dtype=np.int64)
        return Episodes(none, none, 0, math.nan, None, 0)
    known = [as_number(file.header.get("t_start")) for file in files]
    starts = [math.nan if start is None else start for start in known]
    ends = [start + float(np.max(file.seconds)) for start, file in zip(starts, files, strict=True) if len(file.seconds)]
    steps = np.concatenate([np.cumsum(file.lengths) * len(files) for file in files])
    order = np.argsort(steps, kind="stable")
    return Episodes(
        steps[order],
        np.concatenate([file.scores for file in files])[order],
        len(files),
        float(np.max(ends) - np.min(starts)) if ends else math.nan,
        next((env_id for file in files if isinstance(env_id := file.header.get("env_id"), str)), None),
        sum(file.n_broken for file in files),
    )


def _read(path: Path) -> _MonitorFile:
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
    scores, lengths, seconds = np.concatenate(parts, axis=1)
    return _MonitorFile(_header(path), scores, lengths.astype(np.int64), seconds, n_broken)


def _header(path: Path) -> dict[str, Any]:
    with path.open(encoding="utf-8", errors="replace") as file:
        line = file.readline()
    try:
        header = json.loads(line[1:]) if line.startswith("#") else {}
    except (ValueError, RecursionError):
        header = {}
    return header if isinstance(header, dict) else {}
