"""Parts of a report about logged metrics: the main curves as text, the losses side by side, and all numbers."""

import math
import re

import numpy as np

from sb3_ext.common.names import nearest
from sb3_ext.metrics.catalogue import describe, ordered
from sb3_ext.metrics.curves import Series
from sb3_ext.runs.record import SCORE, RunRecord
from sb3_ext.runs.report.charts import chart, markdown_table, number, sample_points, sparkline

__all__ = ["SCALED_LOSSES", "all_numbers", "curves", "losses", "main_curves", "meaning", "shown_curve"]

#: Parts of the loss, multiplied by their coefficients
SCALED_LOSSES = ("train/scaled_policy_loss", "train/scaled_value_loss", "train/scaled_entropy_loss")
#: Shown in the section about the score
_SCORES = (SCORE, "eval/mean_reward")


def main_curves(run: RunRecord) -> list[str]:
    """Names of the metrics to draw: those that the config asks for, and the catalogue's main curves."""
    wanted = [name for name in run.training.get("charts") or () if name in run.series]
    main = [name for name in run.series if describe(name).chart and name not in wanted]
    return [*wanted, *ordered(main)]


def curves(run: RunRecord) -> list[str]:
    """A chart and a table for each main curve except the score; one line for constant ones."""
    if not run.progress.file:
        return [
            "Missing: there is no `progress.json` or `progress.csv`, so there is only the score, from Monitor's files "
            "and evaluations."
        ]
    missing = [name for name in run.training.get("charts") or () if name not in run.series]
    lines = [f"No row has `{name}`, which the config asks for: {nearest(name, run.series)}\n" for name in missing]
    names = [name for name in main_curves(run) if name not in _SCORES]
    if not names:
        return [*lines, f"`{run.progress.file}` has none of the main curves."]
    for name in names:
        series = run.series[name]
        lines += [f"### {name}", meaning(name), ""]
        if len(series.values) == 1 or series.is_constant:
            lines += [f"{number(series.values[0])} in all rows ({run.progress.curves[name].n_values}).", ""]
        else:
            lines += shown_curve(name, series, height=6)
    return lines


def shown_curve(name: str, series: Series, height: int = 10, line: float | None = None) -> list[str]:
    """A chart, and a table with about ten of its points."""
    points = sample_points(*series)
    table = markdown_table(
        ["step", *(number(step) for step, _ in points)], [[name, *(number(value) for _, value in points)]]
    )
    return ["```text", *chart(*series, height=height, line=line).split("\n"), "```", *table, ""]


def losses(run: RunRecord) -> list[str]:
    """The size of each part of the loss after its coefficient, over the training."""
    there = {name: np.abs(run.series[name].finite.values) for name in SCALED_LOSSES if name in run.series}
    if len(there) < 2:
        return [
            "Missing: the losses scaled by their coefficients (`train/scaled_policy_loss` and the others), which are "
            "logged for algorithms with a policy and a value loss."
        ]
    rows = []
    for index, part in enumerate(("first third", "second third", "last third")):
        thirds = [np.array_split(values, 3)[index] for values in there.values()]
        sizes = [float(third.mean()) if len(third) else math.nan for third in thirds]
        total = sum(sizes)
        shares = [f"{number(size)} ({100 * size / total:.0f} %)" if total > 0 else number(size) for size in sizes]
        rows.append([part, *shares])
    return [
        "Mean absolute value of each part after its coefficient, and its share. A policy loss near 0 is normal, "
        "because advantages have a mean of 0; its gradient is not small.",
        "",
        *markdown_table(["training", *there], rows),
        "",
    ]


def all_numbers(run: RunRecord) -> list[str]:
    """A table of all logged metrics."""
    if not run.series:
        return ["Missing: no metrics were logged to a file."]
    rows = []
    for name in ordered(run.series):
        series = run.series[name]
        finite = series.finite.values
        ends = [number(value) for value in (series.values[0], series.values[-1])]
        extremes = [number(finite.min()), number(finite.max())] if len(finite) else ["", ""]
        n_values = run.progress.curves[name].n_values
        rows.append([f"`{name}`", *ends, *extremes, str(n_values), sparkline(series.values)])
    return [*markdown_table(["metric", "first", "last", "min", "max", "values", "curve"], rows), ""]


def meaning(name: str) -> str:
    """What the catalogue says of a metric, in a sentence or two."""
    entry = describe(name)
    sentences = (str(text).rstrip(". ") for text in (entry.meaning, entry.read) if text)
    text = " ".join(f"{text[:1].upper()}{text[1:]}." for text in sentences)
    # The catalogue's links point to the docs
    return re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)
