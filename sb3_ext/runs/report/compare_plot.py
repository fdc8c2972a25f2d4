"""Draws curves of several runs: one panel for each environment, one curve for each group of seeds.

The picture is transparent and its text is grey, so it can be read on a light and on a dark page. The colours are those
of Okabe and Ito, which colour-blind people can tell apart; markers tell the curves apart without colours.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter

from sb3_ext.common.names import suggestion
from sb3_ext.metrics.curves import Series
from sb3_ext.metrics.statistics import Estimate, estimate
from sb3_ext.runs.files import atomic_write
from sb3_ext.runs.record import SCORE, RunRecord
from sb3_ext.runs.report.compare import Group
from sb3_ext.runs.report.plots import make_figure

__all__ = ["AXES", "EVALUATION", "curve_of", "draw_groups", "save_figure"]

EVALUATION = "eval/mean_reward"
#: What can be on the x axis, and its label
AXES = {"timesteps": "timesteps", "vec_steps": "vec steps", "seconds": "seconds of training"}
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8C6D31", "#7F7F7F")
_MARKERS = "osD^vPX*"
#: Readable on white and on black
_GREY = "#7d858e"
_MAX_POINTS = 200
_COLUMNS = 2
_LABELS = {EVALUATION: "score in evaluation", SCORE: "score in training"}


class _Curve(NamedTuple):
    """Interquartile mean over seeds; ``common_end`` is where the first of them ends."""

    x: np.ndarray
    y: Estimate
    common_end: float


def draw_groups(groups: Sequence[Group], metric: str = EVALUATION, x: str = "timesteps") -> Figure:
    """:raises ValueError: if no run has the metric; names those that they have"""
    env_ids = list(dict.fromkeys(group.env_id for group in groups))
    n_columns = min(len(env_ids), _COLUMNS)
    n_rows = -(-len(env_ids) // n_columns)
    figure = make_figure(8, 0.8 + (3.7 if n_columns == 1 else 2.9) * n_rows)
    if not any(len(curve_of(run, metric, x).values) for group in groups for run in group.runs):
        names = sorted({name for group in groups for run in group.runs for name in run.series})
        raise ValueError(
            f"No run has {metric}{suggestion(metric, names)} They have: {', '.join(names) or 'no metrics at all'}."
        )
    has_ended = False
    styles = {label: index for index, label in enumerate(dict.fromkeys(group.label for group in groups))}
    for index, env_id in enumerate(env_ids, 1):
        axes = figure.add_subplot(n_rows, n_columns, index)
        has_ended |= _draw_panel(axes, [group for group in groups if group.env_id == env_id], styles, metric, x)
        axes.set_xlabel(AXES[x])
        if (index - 1) % n_columns == 0:
            axes.set_ylabel(_LABELS.get(metric, metric))
    notes = ["interquartile mean over seeds, with its 95 % bootstrap interval"]
    notes += ["dotted: some seeds have ended and keep their last value"] if has_ended else []
    figure.supxlabel("; ".join(notes), fontsize=8)
    _add_legend(figure)
    _in_grey(figure)
    return figure


def save_figure(figure: Figure, path: str | os.PathLike[str]) -> Path:
    """Write a PNG or SVG file, as its name says."""
    kind = Path(path).suffix.lstrip(".").lower()
    if kind not in ("png", "svg"):
        raise ValueError(f"{path}: the name must end with .png or .svg.")
    # Text stays text, and equal figures are equal files
    settings: dict[Any, Any] = {"svg.fonttype": "none", "svg.hashsalt": "sb3-ext"}
    with atomic_write(path) as unfinished, mpl.rc_context(settings):
        figure.savefig(unfinished, format=kind, dpi=150, metadata={"Date": None} if kind == "svg" else {})
    return Path(path)


def curve_of(run: RunRecord, metric: str, x: str = "timesteps") -> Series:
    """The finite values of a metric. Its ``steps`` are on the x axis that was asked for."""
    special = {EVALUATION: run.evaluation_scores, SCORE: run.score}
    none = Series(np.empty(0), np.empty(0))
    steps, values = (special[metric] if metric in special else run.series.get(metric, none)).finite
    if x == "vec_steps":
        steps = steps / float(run.training.get("n_envs") or run.config.get("n_envs") or run.episodes.n_envs or 1)
    elif x == "seconds":
        steps = _seconds(run, steps)
    return Series(steps, values)


def _seconds(run: RunRecord, steps: np.ndarray) -> np.ndarray:
    clock = run.series.get("time/time_elapsed")
    if clock is not None and len(clock.finite.values):
        known_steps, seconds = clock.finite
    elif run.seconds is not None and run.steps:
        known_steps, seconds = np.array([run.steps]), np.array([run.seconds])
    else:
        raise ValueError(f"{run.folder} has no clock: use another --x.")
    return np.interp(steps, [0, *known_steps], [0.0, *seconds])


def _draw_panel(axes: Axes, groups: Sequence[Group], styles: Mapping[str, int], metric: str, x: str) -> bool:
    """Returns whether a seed has ended before the others."""
    has_ended = False
    for group in groups:
        curve = _over_seeds([curve_of(run, metric, x) for run in group.runs])
        if curve is None:
            continue
        place = styles[group.label] % len(_COLOURS)
        colour, marker = _COLOURS[place], _MARKERS[place]
        together = curve.x <= curve.common_end
        # The point where they part belongs to both lines
        apart = ~together | (curve.x == curve.x[together].max())
        label = f"{group.label} ({curve.y.n_seeds} seed{'s' * (curve.y.n_seeds != 1)})"
        style: dict[str, Any] = {
            "color": colour,
            "marker": marker,
            "markersize": 4,
            "markevery": max(1, len(curve.x) // 10),
        }
        axes.plot(curve.x[together], curve.y.value[together], label=label, linewidth=1.8, **style)
        if apart.sum() > 1:
            has_ended = True
            axes.plot(curve.x[apart], curve.y.value[apart], ":", color=colour, linewidth=1.8)
        if curve.y.low is not None:
            axes.fill_between(curve.x, curve.y.low, curve.y.high, color=colour, alpha=0.2, linewidth=0)
    limits = {run.threshold.value for group in groups for run in group.runs if run.threshold is not None}
    limits = limits if metric in _LABELS else set()
    for value in limits:
        axes.axhline(value, linestyle="--", color=_GREY, linewidth=1.2)
    dashed = f" (dashed: threshold {', '.join(f'{value:g}' for value in sorted(limits))})" if limits else ""
    axes.set_title(f"{groups[0].env_id}{dashed}", fontsize=10)
    axes.grid(alpha=0.25)
    axes.tick_params(labelsize=9)
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    axes.spines[["top", "right"]].set_visible(False)
    return has_ended


def _add_legend(figure: Figure) -> None:
    """One for all panels, where it hides no curve."""
    entries: dict[str, Any] = {}
    for axes in figure.axes:
        handles, labels = axes.get_legend_handles_labels()
        entries |= dict(zip(map(str, labels), handles, strict=True))
    n_columns = min(len(entries), max(1, 90 // max(map(len, entries))))
    style: dict[str, Any] = {"ncols": n_columns, "fontsize": 9, "frameon": False}
    figure.legend(list(entries.values()), list(entries), loc="outside upper center", **style)


def _over_seeds(curves: Sequence[Series]) -> _Curve | None:
    """On common places of the x axis. A run that has ended keeps its last value."""
    curves = [curve for curve in curves if len(curve.values)]
    if not curves:
        return None
    start = max(curve.steps[0] for curve in curves)
    places = np.unique(np.concatenate([curve.steps for curve in curves]))
    places = places[places >= start]
    if len(places) > _MAX_POINTS:
        places = np.linspace(places[0], places[-1], _MAX_POINTS)
    values = np.array([np.interp(places, *curve) for curve in curves])
    return _Curve(places, estimate([values]), min(curve.steps[-1] for curve in curves))


def _in_grey(figure: Figure) -> None:
    figure.patch.set_alpha(0.0)
    texts = [figure._supxlabel, *figure.legends[0].get_texts()]  # type: ignore[attr-defined]
    for axes in figure.axes:
        axes.patch.set_alpha(0.0)
        axes.tick_params(colors=_GREY, which="both")
        for spine in axes.spines.values():
            spine.set_color(_GREY)
        texts += [axes.title, axes.xaxis.label, axes.yaxis.label]
    for text in texts:
        text.set_color(_GREY)
