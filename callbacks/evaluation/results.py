"""Results of an evaluation, for the logger, for ``evaluations.npz`` and for the screen."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from stable_baselines3.common.logger import Logger, TensorBoardOutputFormat

from sb3_ext.runs.files import atomic_write
from sb3_ext.runs.play.scoring import Scores
from sb3_ext.runs.rows import dump_row

__all__ = ["describe", "log_late", "log_now", "metrics_of", "save_evaluations"]


def metrics_of(scores: Scores, step: int, best: float) -> dict[str, float]:
    """:return: metrics by name, with the best mean reward so far"""
    metrics = {
        "eval/mean_reward": scores.mean,
        "eval/std_reward": scores.std,
        "eval/mean_ep_length": scores.mean_length,
        "eval/best_mean_reward": best,
        "eval/n_episodes": len(scores.rewards),
        "eval/time": scores.seconds,
        "eval/step": step,
    }
    if scores.success_rate is not None:
        metrics["eval/success_rate"] = scores.success_rate
    return metrics


def log_now(logger: Logger, metrics: dict[str, float], step: int) -> None:
    """Write a row at once, as SB3's ``EvalCallback`` does."""
    for name, value in metrics.items():
        logger.record(name, value)
    dump_row(logger, step)


def log_late(logger: Logger, metrics: dict[str, float], step: int) -> None:
    """
    Add the result of an earlier agent to the next row, where ``eval/step`` has its step. TensorBoard, whose rows need
    no order, gets it at that step.
    """
    if "eval/step" in logger.name_to_value:
        dump_row(logger, step)  # another result is waiting for its row
    for name, value in metrics.items():
        logger.record(name, value, exclude="tensorboard")
    for output_format in logger.output_formats:
        if isinstance(output_format, TensorBoardOutputFormat):
            output_format.write(dict(metrics), {name: () for name in metrics}, int(metrics["eval/step"]))


def save_evaluations(path: Path, **columns: Sequence[Any]) -> None:
    """
    Write ``evaluations.npz`` as SB3 does, atomically. If evaluations have different numbers of episodes, short rows are
    padded with NaN.

    :param columns: arrays by name, with an entry per evaluation; empty ones are left out
    """
    arrays = {name: _rectangle(rows) for name, rows in columns.items() if rows}
    with atomic_write(path) as unfinished, unfinished.open("wb") as file:
        np.savez(file, **arrays)  # type: ignore[arg-type]


def _rectangle(rows: Sequence[Any]) -> np.ndarray:
    lengths = {np.size(row) for row in rows}
    if len(lengths) < 2:
        return np.array(rows)
    filled = np.full((len(rows), max(lengths)), np.nan)
    for row, values in zip(filled, rows, strict=True):
        row[: len(values)] = values
    return filled


def describe(scores: Scores, step: int, is_best: bool, is_saved: bool) -> str:
    """In SB3's words."""
    lines = [
        f"Eval num_timesteps={step}, episode_reward={scores.mean:.2f} +/- {scores.std:.2f}",
        f"Episode length: {scores.mean_length:.2f} +/- {np.std(scores.lengths):.2f}",
    ]
    if scores.success_rate is not None:
        lines.append(f"Success rate: {100 * scores.success_rate:.2f}%")
    if is_best:
        lines.append("New best mean reward!" + ("" if is_saved else " (Not saved: the callback has no folder.)"))
    return "\n".join(lines)
