"""Draws a study: history, importance of the parameters, parallel coordinates, each as PNG and as HTML.

The PNG files are drawn here, because Optuna's change matplotlib's global style, leave out pruned trials, and print
labels over lines. The HTML files are Optuna's own; they share ``plotly.min.js``, which is beside them, so they open
without a network.
"""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import optuna
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from optuna.distributions import CategoricalDistribution, IntDistribution
from optuna.trial import FrozenTrial, TrialState, create_trial
from optuna.visualization import plot_optimization_history, plot_parallel_coordinate, plot_param_importances

from sb3_ext.runs.files import atomic_write, link_or_copy
from sb3_ext.runs.report.charts import number
from sb3_ext.runs.report.plots import make_figure
from sb3_ext.tune.record import value_text

__all__ = ["PLOTS", "draw_plots", "importance_of", "key_of", "missing_plots"]

PLOTS = ("history", "importance", "parallel")
#: With fewer complete trials, importance would be noise
_ENOUGH = 5
#: Lines and axes of parallel coordinates; more can't be read
_MAX_LINES, _MAX_AXES, _MAX_TICKS = 300, 10, 8
_MAX_BARS = 15
_NOT_USED = "not used"
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8C6D31")
_GREY = "#7d858e"


def draw_plots(study: optuna.Study, folder: Path) -> list[Path]:
    """
    Plots with nothing to show are left out, see :func:`missing_plots`, and old ones are removed.

    :return: for each plot, its PNG file and its HTML file
    """
    missing = missing_plots(study)
    written: list[Path] = []
    failed: dict[str, str] = {}
    with _quiet():
        for name in PLOTS:
            files = [folder / f"{name}.png", folder / f"{name}.html"]
            if name in missing:
                for path in files:
                    path.unlink(missing_ok=True)
                continue
            try:
                with atomic_write(files[0]) as unfinished:
                    _PNG[name](study).savefig(unfinished, format="png", dpi=110)
                _write_html(_HTML[name](study), name, files[1])
                written += files
            # A study without a plot is better than none, whatever is wrong with a library or a file
            except Exception as error:
                failed[name] = f"{type(error).__name__}: {error}"
    for name, reason in failed.items():
        warnings.warn(f"The plot of {name} could not be drawn ({reason}).", stacklevel=2)
    return written


def missing_plots(study: optuna.Study) -> dict[str, str]:
    """Plots that can't be drawn, and why."""
    scores, params = [_value(trial) for trial in _complete(study)], _searched(study)
    if not scores:
        return dict.fromkeys(PLOTS, "no trial is complete")
    missing = {} if params else {"parallel": "nothing was searched"}
    if len(params) < 2:
        missing["importance"] = "fewer than two parameters were searched"
    elif len(scores) < _ENOUGH:
        missing["importance"] = f"fewer than {_ENOUGH} trials are complete"
    elif min(scores) == max(scores):
        missing["importance"] = "all scores are equal"
    return missing


def importance_of(study: optuna.Study) -> dict[str, float]:
    """
    Shares of the parameters in what makes a trial one of the best, largest first, by PED-ANOVA. It draws no random
    numbers, so the same trials always give the same shares. Empty if there are too few trials.
    """
    if "importance" in missing_plots(study):
        return {}
    with _quiet():
        known = _with_pruned(study)
        return optuna.importance.get_param_importances(known, evaluator=_evaluator(known))


def key_of(name: str) -> str:
    """A parameter as the section calls it: in Optuna, it may be an exponent, an index or a distance to 1."""
    return re.sub(r"^(?:log2|index)\((.+)\)$|^1 - (.+)$", r"\1\2", name)


def _text_of(study: optuna.Study, name: str, value: float) -> str:
    """A parameter's value as the section has it, see :class:`~sb3_ext.tune.dimension.Choices`."""
    if name.startswith("log2("):
        return f"{2**value:g}"
    if name.startswith("index("):
        return str(study.user_attrs["settings"]["space"]["keys"][key_of(name)]["choices"][round(value)])
    if name.startswith("1 - "):
        return f"{1 - value:.5g}"
    return f"{value:.3g}" if abs(value) < 100 else number(round(value))


def _evaluator(study: optuna.Study) -> optuna.importance.BaseImportanceEvaluator:
    """At least five trials are the best ones, or half of them."""
    quantile = min(max(0.1, _ENOUGH / len(study.get_trials(deepcopy=False))), 0.5)
    return optuna.importance.PedAnovaImportanceEvaluator(target_quantile=quantile)


def _with_pruned(study: optuna.Study) -> optuna.Study:
    """Pruned trials count as worse than all others: without them, what is hopeless would seem not to matter."""
    complete = _complete(study)
    worst = min(_value(trial) for trial in complete) - 1
    pruned = [
        create_trial(value=worst, params=trial.params, distributions=trial.distributions)
        for trial in _of_state(study, TrialState.PRUNED)
    ]
    return _copy([*complete, *pruned])


def _copy(trials: Sequence[FrozenTrial]) -> optuna.Study:
    copy = optuna.create_study(direction="maximize")
    copy.add_trials(trials)
    return copy


def _of_state(study: optuna.Study, *states: TrialState) -> list[FrozenTrial]:
    return study.get_trials(deepcopy=False, states=states)


def _complete(study: optuna.Study) -> list[FrozenTrial]:
    return [trial for trial in _of_state(study, TrialState.COMPLETE) if math.isfinite(_value(trial))]


def _value(trial: FrozenTrial) -> float:
    return math.nan if trial.value is None else trial.value


def _searched(study: optuna.Study) -> list[str]:
    """Parameters of complete and pruned trials that had a choice."""
    trials = _of_state(study, TrialState.COMPLETE, TrialState.PRUNED)
    names = {name: dist for trial in trials for name, dist in trial.distributions.items() if not dist.single()}
    return sorted(names)


@contextmanager
def _quiet() -> Iterator[None]:
    """Optuna tells of studies that are made in memory, and warns of parts that are experimental."""
    level = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", module="optuna|sb3_ext.tune.plots")
            yield
    finally:
        optuna.logging.set_verbosity(level)


def _history(study: optuna.Study) -> Figure:
    figure = make_figure(8, 4)
    axes = figure.add_subplot()
    complete = _complete(study)
    makers = [str(trial.user_attrs.get("proposed_by", "trial")) for trial in complete]
    for index, maker in enumerate(dict.fromkeys(makers)):
        own = [trial for trial, by in zip(complete, makers, strict=True) if by == maker]
        colour = _COLOURS[index % len(_COLOURS)]
        xs, ys = [trial.number for trial in own], [_value(trial) for trial in own]
        axes.scatter(xs, ys, s=28, color=colour, marker="oD^vsPX"[index % 7], label=f"{maker} ({len(own)})", zorder=3)
    numbers = [trial.number for trial in complete]
    best = np.maximum.accumulate([_value(trial) for trial in complete])
    end = max(trial.number for trial in study.get_trials(deepcopy=False))
    axes.step([*numbers, end], [*best, best[-1]], where="post", color=_GREY, linewidth=1.5, label="best so far")
    lost = (("pruned", TrialState.PRUNED, "|"), ("failed", TrialState.FAIL, "x"))
    for label, state, marker in lost:
        xs = [trial.number for trial in _of_state(study, state)]
        if xs:
            # Their scores are of shorter trainings: only the numbers are shown, at the bottom
            style: dict[str, Any] = {"color": _GREY, "marker": marker, "s": 28, "clip_on": False}
            bottom = axes.get_xaxis_transform()
            axes.scatter(xs, [0.0] * len(xs), transform=bottom, label=f"{label} ({len(xs)})", **style)
    axes.set(xlabel="trial", ylabel=_score_name(study), xlim=(-1, end + 1))
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    _finish(axes, f"{study.study_name}: score of each trial")
    figure.legend(loc="outside right upper", fontsize=8, frameon=False)
    return figure


def _importance(study: optuna.Study) -> Figure:
    shares = dict(list(importance_of(study).items())[:_MAX_BARS])
    figure = make_figure(8, 1.0 + 0.32 * len(shares))
    axes = figure.add_subplot()
    names = list(shares)[::-1]
    bars = axes.barh([key_of(name) for name in names], [shares[name] for name in names], color=_COLOURS[0], height=0.7)
    axes.bar_label(bars, [f" {shares[name]:.0%}" for name in names], fontsize=8)
    axes.set_xlim(0, 1.1 * max(shares.values()))
    axes.xaxis.set_visible(False)
    _finish(axes, f"{study.study_name}: importance of the parameters for a good score")
    axes.grid(False)
    axes.spines["bottom"].set_visible(False)
    return figure


class _Scale(NamedTuple):
    """
    The axis of a parameter, from 0 to 1.

    :param heights: of the trials; outside of the parameter's range for those whose key has another value or none
    :param ticks: heights and labels
    """

    heights: list[float]
    ticks: list[tuple[float, str]]


def _scale_of(study: optuna.Study, name: str, trials: Sequence[FrozenTrial]) -> _Scale:
    values = [trial.params[name] for trial in trials if name in trial.params]
    dist = next(trial.distributions[name] for trial in reversed(trials) if name in trial.params)
    if isinstance(dist, CategoricalDistribution):
        is_numeric = all(isinstance(value, int | float) for value in values)
        order = sorted(set(values), key=None if is_numeric else str)
        low, high, marks = -0.5, len(order) - 0.5, [(float(at), str(value)[:14]) for at, value in enumerate(order)]
        places = {value: float(at) for at, value in enumerate(order)}
    else:
        is_log = getattr(dist, "log", False)
        sign = -1 if name.startswith("1 - ") else 1  # so that larger values of the section are above
        places = {value: sign * (math.log(value) if is_log else value) for value in values}
        low, high = min(places.values()), max(places.values())
        ticks = [low, (low + high) / 2, high] if high > low else [low]
        if isinstance(dist, IntDistribution) and not is_log and high - low <= _MAX_TICKS:
            ticks = [low + step for step in range(round(high - low) + 1)]
        low, high = (low, high) if high > low else (low - 0.5, high + 0.5)
        marks = [(at, _text_of(study, name, math.exp(sign * at) if is_log else sign * at)) for at in ticks]
    # Without the parameter, a key that is active has one of its other values, which is its form
    forms = [trial.params.get(f"{key_of(name)} form", _NOT_USED) for trial in trials]
    others = {form for form, trial in zip(forms, trials, strict=True) if name not in trial.params}
    above = sorted(form for form in others if name.startswith("1 - ") and isinstance(form, int | float))
    below = sorted(others.difference(above), key=lambda form: (form != _NOT_USED, str(form)))
    room = min(0.12, 0.5 / max(len(others), 1))
    outside = {form: room * i for i, form in enumerate(below)} | {form: 1 - room * i for i, form in enumerate(above)}

    def height(at: float) -> float:
        return room * len(below) + (1 - room * len(others)) * (at - low) / (high - low)

    heights = [
        height(places[trial.params[name]]) if name in trial.params else outside[form]
        for form, trial in zip(forms, trials, strict=True)
    ]
    ticks_outside = ((at, value_text(form)[:14]) for form, at in outside.items())
    return _Scale(heights, [*ticks_outside, *((height(at), text) for at, text in marks)])


def _shown(study: optuna.Study) -> list[FrozenTrial]:
    """The best ones come last, above the others."""
    return sorted(_complete(study), key=_value)[-_MAX_LINES:]


def _parallel(study: optuna.Study) -> Figure:
    trials = _shown(study)
    names = _axes_of(study, trials)
    figure = make_figure(max(5.0, 1.6 + 1.15 * len(names)), 4.6)
    axes = figure.add_subplot()
    values = [_value(trial) for trial in trials]
    colours = Normalize(min(values), max(values) if max(values) > min(values) else min(values) + 1)
    scales = [_scale_of(study, name, trials) for name in names]
    for row, value in enumerate(values):
        is_best = row == len(values) - 1
        colour = _COLOURS[1] if is_best else colormaps["Blues"](0.25 + 0.75 * colours(value))
        ys = [scale.heights[row] for scale in scales] + [float(colours(value))]
        axes.plot(range(len(ys)), ys, color=colour, linewidth=2.2 if is_best else 1, alpha=1 if is_best else 0.6)
    of_score = [(float(colours(value)), number(float(f"{value:.4g}"))) for value in (min(values), max(values))]
    all_ticks = [*(scale.ticks for scale in scales), of_score]
    box: dict[str, Any] = {"facecolor": "white", "alpha": 0.75, "edgecolor": "none", "pad": 0.8}
    for x, ticks in enumerate(all_ticks):
        axes.axvline(x, color=_GREY, linewidth=0.8, zorder=0)
        for y, label in ticks:
            axes.annotate(label, (x, y), (3, 0), textcoords="offset points", fontsize=7.5, va="center", bbox=box)
    labels = [*map(key_of, names), "score"]
    turned: dict[str, Any] = {"rotation": 25, "ha": "right"} if len(labels) > 4 else {}
    axes.set_xticks(range(len(labels)), labels, **turned)
    axes.set(xlim=(-0.1, len(labels) - 0.6), ylim=(-0.04, 1.04))
    which = "all complete trials" if len(trials) < _MAX_LINES else f"the best {len(trials)} trials"
    _finish(axes, f"{study.study_name}: {which}; the best one in orange")
    axes.grid(False)
    axes.yaxis.set_visible(False)
    axes.spines[["bottom", "left"]].set_visible(False)
    return figure


def _axes_of(study: optuna.Study, trials: Sequence[FrozenTrial]) -> list[str]:
    """The most important parameters, the most important one next to the score."""
    used = {name for trial in trials for name in trial.params}
    ranked = list(importance_of(study)) or _searched(study)
    return [name for name in ranked if name in used][:_MAX_AXES][::-1]


def _finish(axes: Axes, title: str) -> None:
    axes.set_title(title, fontsize=10, loc="left")
    axes.grid(alpha=0.25)
    axes.set_axisbelow(True)
    axes.tick_params(labelsize=8)
    axes.spines[["top", "right"]].set_visible(False)


def _score_name(study: optuna.Study) -> str:
    names = {"auc": "mean score over the training", "steps": "how early it is solved", "final": "score at the end"}
    return names.get(study.user_attrs.get("settings", {}).get("objective"), "score")


def _write_html(figure: Any, name: str, path: Path) -> None:
    import plotly

    script = Path(plotly.__file__).parent / "package_data" / "plotly.min.js"
    link_or_copy(script, path.with_name(script.name))
    html = figure.to_html(include_plotlyjs=script.name, div_id=name)
    with atomic_write(path) as unfinished:
        unfinished.write_text(html, encoding="utf-8")


_HTML: dict[str, Callable[[optuna.Study], Any]] = {
    "history": lambda study: plot_optimization_history(study, target_name="score"),
    "importance": lambda study: plot_param_importances((known := _with_pruned(study)), evaluator=_evaluator(known)),
    "parallel": lambda study: plot_parallel_coordinate(_copy(_shown(study)), target_name="score"),
}
_PNG: dict[str, Callable[[optuna.Study], Figure]] = {
    "history": _history,
    "importance": _importance,
    "parallel": _parallel,
}
