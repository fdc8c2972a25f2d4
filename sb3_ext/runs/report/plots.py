"""Draws a run's curves as PNG files: score, losses, policy.

The figures don't use pyplot, so they need no display and leave the user's own figures alone.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from sb3_ext.metrics.curves import Series
from sb3_ext.runs.files import atomic_write
from sb3_ext.runs.record import RunRecord
from sb3_ext.runs.report.curves import SCALED_LOSSES

__all__ = ["PLOTS_FOLDER", "make_figure", "write_plots"]

PLOTS_FOLDER = "plots"
#: Drawn separately if no scaled losses were logged
_LOSSES = (
    *("train/policy_gradient_loss", "train/policy_loss", "train/value_loss", "train/entropy_loss"),
    *("train/actor_loss", "train/critic_loss", "train/ent_coef_loss", "train/loss"),
)
_POLICY = (
    *("policy/entropy", "train/approx_kl", "train/clip_fraction", "train/explained_variance", "train/grad_norm"),
    *("train/grad_norm_clipped", "train/learning_rate", "train/std", "train/ent_coef", "rollout/exploration_rate"),
)
_COLUMNS = 2
_DPI = 100
#: More points can't be seen
_MAX_POINTS = 2000


def write_plots(run: RunRecord) -> list[Path]:
    """Draw the plots into ``plots/``. A plot with nothing to show is skipped, and an old one is removed."""
    folder = run.folder / PLOTS_FOLDER
    figures = {"score": _score(run), "losses": _losses(run), "policy": _policy(run)}
    written = []
    for name, figure in figures.items():
        path = folder / f"{name}.png"
        if figure is None:
            path.unlink(missing_ok=True)
            continue
        with atomic_write(path) as unfinished:
            # `savefig` would draw it twice
            FigureCanvasAgg(figure).print_png(unfinished)
        written.append(path)
    return written


def _score(run: RunRecord) -> Figure | None:
    if not len(run.score.values) and not run.evaluations:
        return None
    figure, axes = _one_plot()
    if len(run.score.values):
        _draw(run, axes, run.score, label="training (with exploration, mean of up to 100 episodes)")
    if run.evaluations:
        steps, means = _x(run, run.evaluation_scores.steps), run.evaluation_scores.values
        spread = np.array([evaluation.std or 0.0 for evaluation in run.evaluations])
        n_episodes = run.evaluations[-1].n_episodes
        episodes = "" if n_episodes is None else f" ({n_episodes} episodes, ± std)"
        axes.plot(steps, means, "o-", markersize=3, label=f"evaluation{episodes}")
        axes.fill_between(steps, means - spread, means + spread, alpha=0.2, color=axes.lines[-1].get_color())
    if run.threshold is not None:
        axes.axhline(run.threshold.value, linestyle="--", color="grey", label=f"threshold {run.threshold.value:g}")
    axes.set(title=_title(run), xlabel=_unit(run), ylabel="score (raw reward of an episode)")
    _finish(axes)
    return figure


def _losses(run: RunRecord) -> Figure | None:
    scaled = [name for name in SCALED_LOSSES if name in run.series]
    if not scaled:
        return _panels(run, _LOSSES, "losses, not scaled by coefficients")
    figure, axes = _one_plot()
    for name in scaled:
        _draw(run, axes, run.series[name], label=name)
    axes.axhline(0.0, linewidth=0.8, color="grey")
    # Linear around zero, so that a large part doesn't hide a small one
    sizes = np.abs(np.concatenate([run.series[name].finite.values for name in scaled]))
    if len(sizes) and sizes.max() > 0:
        axes.set_yscale("symlog", linthresh=max(float(np.median(sizes)), float(sizes.max()) * 1e-4))
    axes.set(title=f"{_title(run)}: losses times their coefficients", xlabel=_unit(run), ylabel="part of the loss")
    _finish(axes)
    return figure


def _policy(run: RunRecord) -> Figure | None:
    return _panels(run, _POLICY, "policy and updates")


def _panels(run: RunRecord, wanted: Sequence[str], what: str) -> Figure | None:
    names = [name for name in wanted if name in run.series]
    if not names:
        return None
    n_rows = -(-len(names) // _COLUMNS)
    height = 0.6 + 2.0 * n_rows
    figure = Figure(figsize=(8, height), dpi=_DPI)
    figure.subplots_adjust(0.08, 0.45 / height, 0.98, 1 - 0.6 / height, wspace=0.22, hspace=0.45)
    figure.suptitle(f"{_title(run)}: {what}", fontsize=10, y=1 - 0.2 / height)
    for index, name in enumerate(names, 1):
        axes = figure.add_subplot(n_rows, _COLUMNS, index)
        _draw(run, axes, run.series[name])
        axes.set_title(name, fontsize=9)
        _finish(axes)
    return figure


def _one_plot() -> tuple[Figure, Axes]:
    """With fixed margins: to fit them to the text takes longer than all the rest."""
    figure = Figure(figsize=(8, 4.5), dpi=_DPI)
    figure.subplots_adjust(0.1, 0.11, 0.98, 0.92)
    return figure, figure.add_subplot()


def make_figure(width: float, height: float) -> Figure:
    """A figure whose margins fit its text."""
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def _draw(run: RunRecord, axes: Axes, series: Series, label: str | None = None) -> None:
    every = max(1, len(series.values) // _MAX_POINTS)
    # NaN is a gap in the line; infinity would ruin the axis
    values = np.where(np.isfinite(series.values), series.values, np.nan)
    steps, style = _x(run, series.steps), "o-" if len(values) == 1 else "-"
    axes.plot(steps[::every], values[::every], style, markersize=3, label=label)


def _x(run: RunRecord, steps: Sequence[float] | np.ndarray) -> np.ndarray:
    return np.asarray(steps) // run.steps_per_tick


def _unit(run: RunRecord) -> str:
    return "steps" if run.steps_per_tick == 1 else "vec steps"


def _finish(axes: Axes) -> None:
    axes.grid(alpha=0.3)
    axes.tick_params(labelsize=8)
    axes.ticklabel_format(axis="x", style="sci", scilimits=(-3, 5))
    axes.xaxis.offsetText.set_fontsize(8)
    if axes.get_legend_handles_labels()[0]:
        axes.legend(fontsize=8, loc="best" if len(axes.lines) < 3 else "upper right")


def _title(run: RunRecord) -> str:
    name = run.algo or run.training.get("algorithm")
    return f"{f'{name}, ' if name else ''}{run.folder.resolve().name}"
