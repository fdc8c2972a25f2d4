"""Episodes of a training, from the files that ``Monitor`` writes: a file an environment, a line an episode.

Every training of RL Zoo has them, also one whose logger wrote no file.
"""

from __future__ import annotations

import csv
import json
import math
import os
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from sb3_ext.runs.progress_file import Series
from sb3_ext.runs.small_files import as_number

__all__ = ["WINDOW", "Episodes", "read_episodes"]

#: Episodes that a score is the mean of, as many as SB3 takes
WINDOW = 100
#: Steps of an episode; more are a mistake in the file
_LONGEST = 10**12


class Episodes(NamedTuple):
    """
    Episodes that have ended, in the order in which they did.

    :param steps: timesteps of all environments when the episode ended: these step together, so that it is the steps of
        its own one times their number
    :param scores: sums of rewards
    :param lengths: steps
    :param n_envs: environments, as many as files
    :param seconds: from the start of the first environment to the end of the last episode
    :param env_id: of the environment, when the files have it
    :param n_broken: lines that could not be read, such as the last one of a training that was killed
    """

    steps: np.ndarray
    scores: np.ndarray
    lengths: np.ndarray
    n_envs: int
    seconds: float
    env_id: str | None
    n_broken: int

    def mean_scores(self, window: int = WINDOW) -> Series:
        """
        :param window: episodes
        :return: at the end of each episode, the mean score of up to so many last ones
        """
        sums = np.concatenate([[0.0], np.cumsum(self.scores)])
        ends = np.arange(1, len(self.scores) + 1)
        starts = np.maximum(ends - window, 0)
        return Series(self.steps, (sums[ends] - sums[starts]) / (ends - starts))


class _MonitorFile(NamedTuple):
    header: dict[str, Any]
    rows: list[tuple[float, int, float]]
    n_broken: int


def read_episodes(folder: str | os.PathLike[str]) -> Episodes | None:
    """
    :param folder: of a run
    :return: its episodes; ``None`` when there is no file of ``Monitor``'s
    """
    files = [_read(path) for path in sorted(Path(folder).glob("*monitor.csv"))]
    if not files:
        return None
    episodes = []
    starts, ends = [], []
    for header, rows, _ in files:
        own_steps = 0
        start = as_number(header.get("t_start"))
        starts.append(math.nan if start is None else start)
        for score, length, seconds in rows:
            own_steps += length
            episodes.append((own_steps * len(files), score, length))
            ends.append(starts[-1] + seconds)
    episodes.sort(key=lambda episode: episode[0])
    steps, scores, lengths = np.array(episodes, dtype=float).reshape(-1, 3).T
    return Episodes(
        steps.astype(np.int64),
        scores,
        lengths.astype(np.int64),
        len(files),
        float(np.max(ends) - np.min(starts)) if ends else math.nan,
        next((env_id for file in files if isinstance(env_id := file.header.get("env_id"), str)), None),
        sum(file.n_broken for file in files),
    )


def _read(path: Path) -> _MonitorFile:
    text = path.read_text(encoding="utf-8", errors="replace")
    whole, _, half = text.rpartition("\n")
    lines = whole.split("\n")
    header: Any = {}
    if lines[0].startswith("#"):
        try:
            header = json.loads(lines.pop(0)[1:])
        except (ValueError, RecursionError):
            header = {}
    rows, n_broken = [], int(bool(half))
    for row in csv.DictReader(lines):
        try:
            score, length, seconds = float(row["r"]), int(float(row["l"])), float(row["t"])
        except (KeyError, TypeError, ValueError, OverflowError):
            n_broken += 1
            continue
        if 0 <= length < _LONGEST:
            rows.append((score, length, seconds))
        else:
            n_broken += 1
    return _MonitorFile(header if isinstance(header, dict) else {}, rows, n_broken)
