"""The table that compares groups of runs: their scores over seeds, with the uncertainty."""

from collections.abc import Sequence
from datetime import timedelta
from itertools import groupby
from pathlib import Path
from typing import Any

from sb3_ext.metrics.statistics import ENOUGH_SEEDS, Estimate
from sb3_ext.runs.record import read_record
from sb3_ext.runs.report.charts import number
from sb3_ext.runs.report.compare import Comparison, Group, compare, group_runs, is_evaluated

__all__ = ["comparison_data", "comparison_text"]

_COLUMNS = (
    *("", "seeds", "final score", "mean over training", "reached threshold", "time"),
    *("P(better than first)", "verdict"),
)


def comparison_data(folders: Sequence[Path]) -> list[dict[str, Any]]:
    """For JSON: one entry per group."""
    groups, _ = group_runs([read_record(folder) for folder in folders])
    return [_as_dict(compared) for of_env in _by_env(groups) for compared in compare(of_env)]


def comparison_text(folders: Sequence[Path]) -> str:
    """A table for each environment, and what to know about them."""
    groups, notes = group_runs([read_record(folder) for folder in folders])
    lines = [line for of_env in _by_env(groups) for line in _table(of_env)]
    lines += [*notes, "Scores are interquartile means over seeds with 95 % bootstrap intervals."]
    few = sum(len(group.runs) < ENOUGH_SEEDS for group in groups)
    if few:
        lines.append(f"Groups with fewer than {ENOUGH_SEEDS} seeds: {few} of {len(groups)}. That is too few to tell.")
    return "\n".join(lines)


def _by_env(groups: Sequence[Group]) -> list[list[Group]]:
    return [list(of_env) for _, of_env in groupby(groups, key=lambda group: group.env_id)]


def _table(groups: Sequence[Group]) -> list[str]:
    threshold = next((run.threshold for group in groups for run in group.runs if run.threshold is not None), None)
    source = "last evaluation" if is_evaluated(groups) else "end of training, with exploration"
    limit = "" if threshold is None else f"; threshold {number(threshold.value)}"
    rows = [list(_COLUMNS), *(_cells(compared) for compared in compare(groups))]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_COLUMNS))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return [f"{groups[0].env_id} ({source}{limit})", *lines, ""]


def _cells(compared: Comparison) -> list[str]:
    n_runs = len(compared.group.runs)
    has_threshold = any(run.threshold is not None for run in compared.group.runs)
    reached = f"{compared.reached} of {n_runs}" if has_threshold else "no threshold"
    if compared.steps is not None:
        reached += f", at {compared.steps:,.0f} steps"
    return [
        compared.group.label,
        str(n_runs) if compared.score.n_seeds == n_runs else f"{compared.score.n_seeds} of {n_runs} with a score",
        _shown(compared.score),
        _shown(compared.efficiency),
        reached,
        "" if compared.seconds is None else str(timedelta(seconds=round(compared.seconds))),
        "" if compared.better is None else _shown(compared.better),
        compared.verdict,
    ]


def _shown(estimate: Estimate) -> str:
    if not estimate.n_seeds:
        return "none"
    interval = "" if estimate.low is None else f" [{number(estimate.low)}, {number(estimate.high)}]"
    return f"{number(estimate.value)}{interval}"


def _as_dict(compared: Comparison) -> dict[str, Any]:
    group = compared.group
    return {
        "env": group.env_id,
        "group": group.label,
        "runs": [str(run.folder) for run in group.runs],
        "final_scores": [score if score == score else None for score in compared.scores],
        "final_score": _estimate(compared.score),
        "mean_over_training": _estimate(compared.efficiency),
        "reached_threshold": compared.reached,
        "steps_to_threshold": compared.steps,
        "seconds": compared.seconds,
        "probability_of_improvement": None if compared.better is None else _estimate(compared.better),
        "verdict": compared.verdict,
    }


def _estimate(estimate: Estimate) -> dict[str, Any]:
    if not estimate.n_seeds:
        return {"value": None, "low": None, "high": None, "n_seeds": 0}
    low, high = (None if side is None else float(side) for side in (estimate.low, estimate.high))
    return {"value": float(estimate.value), "low": low, "high": high, "n_seeds": estimate.n_seeds}
