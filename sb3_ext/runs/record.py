"""A run folder read back: config, logged metrics, evaluations, episodes, and how the training ended.

Nothing here needs the training's process or code: a folder copied from another machine will do. What is missing is
``None`` or empty, and ``RunRecord.problems`` lists what could not be read.
"""

import math
import os
import re
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from sb3_ext.common.model_file import read_model_file
from sb3_ext.metrics.curves import BoundedCurve, Series
from sb3_ext.runs.agents.checkpoint import BEST, Checkpoint
from sb3_ext.runs.files import ALERTS_FILE, RUN_FILE
from sb3_ext.runs.folders import check_is_run
from sb3_ext.runs.logs import MAX_POINTS, WINDOW, Episodes, Progress, read_episodes, read_progress
from sb3_ext.runs.plain_files import as_number, checked, read_plain, read_small_text

__all__ = ["SCORE", "EvaluationResult", "RunRecord", "Threshold", "read_record"]

SCORE = "rollout/ep_rew_mean"
#: Bytes of the arrays of evaluations, unpacked
_MAX_EVALUATIONS = 100_000_000
#: Types of values that the report relies on
_TRAINING: dict[str, type] = {
    **dict.fromkeys(
        (
            *("state", "algorithm", "algo", "env_id", "stop_reason", "stop_advice", "error", "signal"),
            *("threshold_source", "parent", "git_commit"),
        ),
        str,
    ),
    **dict.fromkeys(("steps", "steps_at_start", "total_timesteps", "seconds", "threshold", "env_threshold"), float),
    **{"axis": str, "n_envs": float},
    **dict.fromkeys(("evaluates", "deterministic_eval"), bool),
    **{"charts": list, "hyperparams": dict, "versions": dict},
}
_ALERT: dict[str, type] = dict.fromkeys(("count", "share", "first_step", "last_step"), float)
_ARGS: dict[str, type] = {**dict.fromkeys(("algo", "env", "trained_agent"), str), "gym_packages": list}
#: Episodes so far
_EPISODES = "time/episodes"
_NUMBERED = re.compile(r"(?P<env>.+)_(?P<number>\d+)")


class EvaluationResult(NamedTuple):
    """Scores of an evaluation; ``None`` where the files don't say."""

    step: int
    mean: float
    std: float | None
    n_episodes: int | None
    mean_length: float | None

    @property
    def error(self) -> float | None:
        """Standard error of the mean."""
        if self.std is None or not self.n_episodes or self.n_episodes < 2:
            return None
        # The standard deviation is that of numpy, which divides by n
        return self.std / math.sqrt(self.n_episodes - 1)


class Threshold(NamedTuple):
    """The score at which the task counts as solved, and who says so."""

    value: float
    source: str


@dataclass(frozen=True)
class RunRecord:
    """
    :param args: RL Zoo's command line arguments, by name
    :param command: the command line as RL Zoo saved it, without quotes
    :param alerts: counts and advice; ``None`` when alerts were off
    :param training: contents of ``run.json``
    :param problems: what could not be read
    """

    folder: Path
    args: Mapping[str, Any]
    config: Mapping[str, Any]
    command: str | None
    progress: Progress
    evaluations: tuple[EvaluationResult, ...]
    evaluations_file: str | None
    episodes: Episodes
    alerts: tuple[Mapping[str, Any], ...] | None
    training: Mapping[str, Any]
    problems: tuple[str, ...]

    @property
    def series(self) -> Mapping[str, Series]:
        """Logged metrics by name."""
        return self.progress.series

    @property
    def algo(self) -> str | None:
        """Value for ``--algo``."""
        return self.args.get("algo")

    @property
    def env_id(self) -> str | None:
        return self.args.get("env") or self.episodes.env_id or self.training.get("env_id")

    @property
    def number(self) -> int | None:
        """Value for ``--exp-id``."""
        match = _NUMBERED.fullmatch(self.folder.name)
        return None if match is None else int(match["number"])

    @cached_property
    def params_folder(self) -> Path | None:
        """Where RL Zoo puts config and arguments; ``None`` for a run without RL Zoo."""
        return next((path.parent for path in sorted(self.folder.glob("*/args.yml"))), None)

    @property
    def final_model(self) -> Path | None:
        """Where RL Zoo saves the final model, whether it exists or not."""
        return None if self.params_folder is None else self.params_folder.with_name(f"{self.params_folder.name}.zip")

    @property
    def has_best_model(self) -> bool:
        return Checkpoint(self.folder, BEST).model.is_file()

    @cached_property
    def score(self) -> Series:
        """Mean score of the last 100 training episodes, over the steps."""
        if SCORE in self.series:
            return self.series[SCORE]
        curve = BoundedCurve(MAX_POINTS)
        curve.extend(*self.episodes.mean_scores())
        return curve.series()

    @cached_property
    def settled_score(self) -> Series:
        """The score from the point where it is a mean of 100 episodes, or of all: one lucky episode is not a score."""
        start = 0
        if len(self.episodes.steps):
            start = self.episodes.steps[:WINDOW][-1]
        elif _EPISODES in self.series:
            steps, counts = self.series[_EPISODES].finite
            start = steps[np.argmax(counts >= min(WINDOW, counts[-1]))] if len(counts) else 0
        kept = self.score.steps >= start
        return Series(self.score.steps[kept], self.score.values[kept])

    @cached_property
    def evaluation_scores(self) -> Series:
        """Mean scores of the evaluations."""
        steps, means = ([result[index] for result in self.evaluations] for index in (0, 1))
        return Series(np.array(steps, dtype=np.int64), np.array(means, dtype=float))

    @cached_property
    def steps(self) -> int | None:
        """Timesteps of training."""
        logged = self.progress.latest("time/total_timesteps")
        facts = [logged, self.training.get("steps")]  # while it runs, the facts lag behind the rows
        if self.training.get("state") != "running":
            facts.reverse()
        known = _numbers(*facts, self._steps_of_model(), *self.episodes.steps[-1:])
        return int(known[0]) if known else None

    @property
    def planned_steps(self) -> int | None:
        given = [known.get("n_timesteps") for known in (self.args, self.config)]
        return next((int(steps) for steps in _numbers(self.training.get("total_timesteps"), *given) if steps > 0), None)

    @property
    def seconds(self) -> float | None:
        logged = self.progress.latest("time/time_elapsed")
        return next(iter(_numbers(self.training.get("seconds"), logged, self.episodes.seconds)), None)

    @cached_property
    def threshold(self) -> Threshold | None:
        ext = self.config.get("ext")
        for value, source in (
            (self.training.get("threshold"), self.training.get("threshold_source") or f"in {RUN_FILE}"),
            (ext.get("threshold") if isinstance(ext, Mapping) else None, "of the config, `ext: threshold:`"),
            (self.training.get("env_threshold"), "of the environment"),
        ):
            if isinstance(value, (int, float)):
                return Threshold(float(value), source)
        return _threshold_of(self.env_id)

    @property
    def steps_per_tick(self) -> int:
        """Timesteps for one step on the x axis of plots: more than one if that is in vec steps."""
        return max(int(self.training.get("n_envs") or 1), 1) if self.training.get("axis") == "vec_steps" else 1

    def _steps_of_model(self) -> int | None:
        try:
            return None if self.final_model is None else read_model_file(self.final_model).num_timesteps
        except (OSError, ValueError):
            return None


def _numbers(*values: Any) -> list[float]:
    return [number for number in map(as_number, values) if number is not None]


def read_record(folder: str | os.PathLike[str]) -> RunRecord:
    """:raises ValueError: when it is not one; the message names the nearest one"""
    path = Path(folder)
    check_is_run(path)
    problems: list[str] = []
    args_files = sorted(path.glob("*/args.yml"))
    params = args_files[0].parent if args_files else path
    progress = read_progress(path)
    evaluations, evaluations_file = _read_evaluations(path, progress, problems)
    alerts = read_plain(path / ALERTS_FILE, list, problems)
    command = read_small_text(params / "command.txt", problems)
    return RunRecord(
        path,
        checked(read_plain(params / "args.yml", dict, problems) or {}, _ARGS, "args.yml", problems),
        read_plain(params / "config.yml", dict, problems) or {},
        None if command is None else command.strip(),
        progress,
        evaluations,
        evaluations_file,
        read_episodes(path),
        None
        if alerts is None
        else tuple(checked(alert, _ALERT, ALERTS_FILE, problems) for alert in alerts if isinstance(alert, dict)),
        checked(read_plain(path / RUN_FILE, dict, problems) or {}, _TRAINING, RUN_FILE, problems),
        tuple(problems),
    )


def _read_evaluations(
    folder: Path, progress: Progress, problems: list[str]
) -> tuple[tuple[EvaluationResult, ...], str | None]:
    path = folder / "evaluations.npz"
    if path.is_file():
        try:
            return _evaluations_of_file(path), path.name
        # NumPy raises many kinds of errors for a file that somebody else wrote
        except Exception as error:
            problems.append(f"{path.name} can't be read: {error}")
    if "eval/mean_reward" not in progress.series:
        return (), None
    means = progress.series["eval/mean_reward"]
    others = [
        dict(zip(*progress.series[name], strict=True)) if name in progress.series else {}
        for name in ("eval/std_reward", "eval/n_episodes", "eval/mean_ep_length")
    ]
    evaluations = []
    for step, mean in zip(means.steps, means.values, strict=True):
        std, n_episodes, length = (as_number(other.get(step)) for other in others)
        count = None if n_episodes is None else int(n_episodes)
        evaluations.append(EvaluationResult(int(step), mean, std, count, length))
    return tuple(evaluations), progress.file


def _evaluations_of_file(path: Path) -> tuple[EvaluationResult, ...]:
    """Evaluations with fewer episodes than others are padded with NaN."""
    with zipfile.ZipFile(path) as archive:
        if sum(array.file_size for array in archive.infolist()) > _MAX_EVALUATIONS:
            raise ValueError(f"it has more than {_MAX_EVALUATIONS:,} bytes when unpacked.")
    with np.load(path) as saved:
        steps, results = saved["timesteps"], np.asarray(saved["results"], dtype=float)
        lengths = np.asarray(saved["ep_lengths"], dtype=float) if "ep_lengths" in saved else None
    evaluations = []
    for index, step in enumerate(steps):
        there = ~np.isnan(np.atleast_1d(results[index]))
        if there.any():
            scores = np.atleast_1d(results[index])[there]
            mean, std = float(scores.mean()), float(scores.std())
            length = None if lengths is None else float(np.atleast_1d(lengths[index])[there].mean())
            evaluations.append(EvaluationResult(int(step), mean, std, len(scores), length))
    return tuple(sorted(evaluations, key=lambda evaluation: evaluation.step))


def _threshold_of(env_id: str | None) -> Threshold | None:
    """The environment's own threshold, if Gymnasium knows the environment."""
    if env_id is None:
        return None
    import gymnasium as gym

    import sb3_ext.envs  # noqa: F401  registers ours

    try:
        value = gym.spec(env_id).reward_threshold
    # Not registered here; or the id names a module, whose import may raise anything
    except Exception:
        return None
    return None if value is None else Threshold(float(value), "of the environment")
