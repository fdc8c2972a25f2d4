"""Writes the report of a study from what Optuna has stored, at the end or at any time later.

Each section returns lines of Markdown; one without lines is left out.
"""

from __future__ import annotations

import os
import re
import shlex
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from math import isfinite, nan
from pathlib import Path
from statistics import fmean
from typing import Any

import optuna
import yaml

from sb3_ext.callbacks.table.format import clock
from sb3_ext.common.clean_text import mask_passwords, printable
from sb3_ext.runs.files import atomic_write
from sb3_ext.runs.report.charts import markdown_table, number, sparkline
from sb3_ext.runs.report.commands import shown_path
from sb3_ext.tune.judge import score_curve, steps_to_threshold
from sb3_ext.tune.plots import PLOTS, importance_of, key_of, missing_plots
from sb3_ext.tune.record import TrialRecord, changes, curve_from, trial_record, value_text
from sb3_ext.tune.settings import StudySettings
from sb3_ext.tune.space import SearchSpace
from sb3_ext.zoo.trial_training import Curve

__all__ = ["REPORT_FILE", "report_text", "write_report"]

REPORT_FILE = "report.md"
_TOP = 10
_MAX_FAILURES = 10
#: Characters of a bar of importance
_BAR = 30
_Section = Callable[["_Known"], list[str]]
_OBJECTIVES = {
    "auc": "area under the curve of evaluations (their mean over the training)",
    "steps": "steps to the threshold (1: at once, 0: at the end, below 0: never)",
    "final": "mean of the last third of evaluations",
}


def write_report(study: optuna.Study, folder: str | os.PathLike[str]) -> Path:
    """
    Write ``report.md`` to the study's folder. It shows the plots that :func:`~sb3_ext.tune.plots.draw_plots` has drawn.

    :return: path of the report
    """
    path = Path(folder) / REPORT_FILE
    with atomic_write(path) as unfinished:
        unfinished.write_text(_make(_Known(study, Path(folder)), _SECTIONS), encoding="utf-8")
    return path


def report_text(study: optuna.Study) -> str:
    """The report on one page, without files and commands: for a language model."""
    return _make(_Known(study, None), {title: _SECTIONS[title] for title in _SHORT})


def _make(known: _Known, sections: Mapping[str, _Section]) -> str:
    lines = _title(known)
    for title, write in sections.items():
        written = write(known)
        lines += ["", f"## {title}", *written] if written else []
    # Names and notes may come from elsewhere
    return printable(mask_passwords("\n".join(lines) + "\n"))


class _Known:
    """What the sections read. ``folder`` is ``None`` for a report without files."""

    def __init__(self, study: optuna.Study, folder: Path | None) -> None:
        self.study, self.folder = study, folder
        self.trials = [trial_record(trial) for trial in study.get_trials(deepcopy=False)]
        self.attributes = {trial.number: trial.user_attrs for trial in study.get_trials(deepcopy=False)}
        self.settings = StudySettings.read(study.user_attrs["settings"], f"the settings of {study.study_name!r}")
        self.start = self.settings.start
        self.result: dict[str, Any] | None = study.user_attrs.get("result")
        self.ranked = sorted(self.of("complete"), key=lambda trial: (-(trial.score or 0.0), trial.number))

    def of(self, state: str) -> list[TrialRecord]:
        return [trial for trial in self.trials if trial.state == state]

    @cached_property
    def best(self) -> TrialRecord | None:
        """The one that was compared with the start, or else the one with the highest score."""
        chosen = self.result["best"]["trial"] if self.result else None
        return next((trial for trial in self.trials if trial.number == chosen), next(iter(self.ranked), None))

    @cached_property
    def fresh_curves(self) -> list[Curve]:
        """Of finalists, and of the comparison with the start."""
        attributes = self.study.user_attrs
        return [curve_from(raw) for name, raw in attributes.items() if name.startswith("fresh ")]


def _title(known: _Known) -> list[str]:
    settings, best = known.settings, known.best
    lines = [f"# {settings.algo} on {settings.env}: study {known.study.study_name}", ""]
    if best is None:
        return [*lines, "**No trial is complete yet**, so there is no best configuration."]
    if known.result is None:
        score = "an unknown score" if best.score is None else f"a score of {number(best.score)}"
        so_far = f"Trial {best.number} is the best so far, with {score}."
        if known.study.user_attrs.get("start_is_best"):
            return [*lines, "**No trial is better than the start.** It was the best of the finalists on more seeds."]
        return [*lines, f"{so_far} It has not been compared with the start on fresh seeds."]
    return [*lines, _verdict(known.result)]


def _verdict(result: Mapping[str, Any]) -> str:
    start, best = (_mean(result[name]["scores"]) for name in ("start", "best"))
    n, is_better = len(result["best"]["scores"]), "is better" if result["is_better"] else "is not clearly better"
    written = f"It was written to `{result['written']}`." if result.get("written") else "No section was written."
    return (
        f"**Trial {result['best']['trial']} {is_better} than the start.** On {n} fresh seed{'s' * (n != 1)}, the mean "
        f"score is {best}, and {start} at the start. {written}"
    )


def _mean(scores: Sequence[float]) -> str:
    """Trainings that diverged have no score."""
    finite = [score for score in scores if isfinite(score)]
    n_failed = len(scores) - len(finite)
    text = number(fmean(finite)) if finite else "unknown"
    return f"{text} ({n_failed} of {len(scores)} failed)" if n_failed else text


def _best(known: _Known) -> list[str]:
    best = known.best
    if best is None:
        return []
    names = [*changes(known.start, best.section), *(name for name in known.start if name not in best.section)]
    rows = [[f"`{name}`", *(value_text(of.get(name, "")) for of in (known.start, best.section))] for name in names]
    table = markdown_table(["changed", "start", f"trial {best.number}"], rows) if rows else ["The start is the best."]
    return [*table, "", *_yaml({known.settings.env: best.section})]


def _yaml(content: Any) -> list[str]:
    return _block(yaml.safe_dump(content, sort_keys=False, allow_unicode=True).rstrip(), "yaml")


def _block(text: str, kind: str = "bash") -> list[str]:
    return [f"```{kind}", text, "```"]


def _seeds(known: _Known) -> list[str]:
    if known.best is None:
        return []
    settings, rows = known.settings, []
    for seed, curve in enumerate(known.best.curves):
        score = score_curve(settings, curve, known.study.user_attrs.get("seconds"))
        solved = steps_to_threshold(curve, settings.threshold) if settings.threshold is not None else None
        last = curve.points[-1].score if curve.points else nan
        reached = "never" if solved is None else number(solved)
        rows.append([str(settings.real_seed(seed)), number(score), number(last), reached, _curve(curve)])
    header = ["seed", "score", "last evaluation", "steps to the threshold", "evaluations"]
    return markdown_table(header, rows) if rows else []


def _curve(curve: Curve) -> str:
    return sparkline([point.score for point in curve.points]) + (" (failed)" if curve.error else "")


def _fresh(known: _Known) -> list[str]:
    result = known.result
    if result is None:
        return []
    start, best = result["start"], result["best"]
    rows = [
        [str(seed), number(one), number(other), number(other - one)]
        for seed, one, other in zip(best["seeds"], start["scores"], best["scores"], strict=True)
    ]
    header = ["seed", "start", f"trial {best['trial']}", "difference"]
    return [
        *markdown_table(header, rows),
        "",
        f"Mean difference: {_interval(result['difference'])}. Probability that trial {best['trial']} scores higher "
        f"than the start: {_interval(result['probability'])}. Exact rank test: p = {result['p_value']:.2g} "
        "(up to 0.05 counts as better). None of these seeds had a part in choosing the trial.",
    ]


def _interval(estimate: Sequence[float | None]) -> str:
    value, low, high = estimate
    text = "unknown" if value is None else number(value)
    return text if low is None or high is None else f"{text} (95 % interval {number(low)} to {number(high)})"


def _top(known: _Known) -> list[str]:
    rows = []
    for trial in known.ranked[:_TOP]:
        changed = changes(known.start, trial.section)
        text = ", ".join(f"{name} {value_text(value)}" for name, value in changed.items()) or "unchanged"
        curve = _curve(trial.curves[0]) if trial.curves and trial.curves[0].points else ""
        rows.append([str(trial.number), number(trial.score or 0.0), trial.proposed_by, curve, text])
    if not rows:
        return []
    notes = [
        f"- trial {trial.number}: {' '.join(str(known.attributes[trial.number]['note']).split())[:300]}"
        for trial in known.ranked[:_TOP]
        if known.attributes[trial.number].get("note")
    ]
    header = ["trial", "score", "proposed by", "first seed", "changes from the start"]
    return [*markdown_table(header, rows), *(["", "Why they were proposed:", *notes] if notes else [])]


def _importance(known: _Known) -> list[str]:
    shares = {key_of(name): share for name, share in list(importance_of(known.study).items())[:_TOP]}
    if not shares:
        return []
    width, most = max(map(len, shares)), max(shares.values())
    lines = [f"{name:{width}} {share:4.0%} {'█' * round(_BAR * share / most)}" for name, share in shares.items()]
    note = "Shares in what makes a trial one of the best (PED-ANOVA; pruned trials count as bad)."
    return [*_block("\n".join(lines), "text"), note]


def _budget(known: _Known) -> list[str]:
    curves = [*(curve for trial in known.trials for curve in trial.curves), *known.fresh_curves]
    steps = sum(curve.steps for curve in curves)
    counts = ", ".join(f"{n} {state}" for state, n in Counter(trial.state for trial in known.trials).items())
    n_fresh = f", {len(known.fresh_curves)} of them for finalists and the comparison" if known.fresh_curves else ""
    rows = [
        ["trials", f"{len(known.trials)}: {counts}" if counts else "0"],
        ["trainings", f"{len(curves)}{n_fresh}"],
        ["environment steps", number(steps)],
        ["time of all trainings together", clock(sum(curve.seconds for curve in curves))],
    ]
    planned = known.settings.timesteps * known.settings.seeds
    saved = sum(max(planned - sum(curve.steps for curve in trial.curves), 0) for trial in known.of("pruned"))
    if saved:
        share = saved / (saved + steps)
        rows.append(["saved by pruning", f"{number(saved)} steps, {share:.0%} of what it would have taken"])
    return markdown_table(["what", "how much"], rows)


def _failures(known: _Known) -> list[str]:
    reasons: dict[str, list[str]] = {}
    for trial in known.trials:
        errors = [curve.error for curve in trial.curves if curve.error]
        error = known.attributes[trial.number].get("error") or next(iter(errors), None)
        if error is None and trial.state == "failed":
            error = "unknown"
        if error is not None:
            reasons.setdefault(" ".join(str(error).split())[:300], []).append(str(trial.number))
    lines = [f"- {reason} (trial{'s' * (len(of) > 1)} {', '.join(of)})" for reason, of in reasons.items()]
    n_more = len(lines) - _MAX_FAILURES
    return [*lines[:_MAX_FAILURES], *([f"- and {n_more} other reasons"] if n_more > 0 else [])]


def _plots(known: _Known) -> list[str]:
    assert known.folder is not None
    missing, lines = missing_plots(known.study), []
    for name in PLOTS:
        if name in missing:
            lines += [f"No plot of {name}: {missing[name]}.", ""]
        elif (known.folder / f"{name}.png").is_file():
            lines += [f"![{name}]({name}.png)", "", f"[{name}.html]({name}.html) is interactive.", ""]
    return lines[:-1]


def _searched(known: _Known) -> list[str]:
    settings = known.settings
    shown = {
        "each training": f"{number(settings.timesteps)} timesteps",
        "seeds of each trial": str(settings.seeds),
        "score of a training": _OBJECTIVES[settings.objective],
        "score of a trial": f"quantile {settings.quantile:g} over its seeds",
        "evaluations": f"{settings.evaluations} of {settings.episodes} episodes each",
        "threshold": "none" if settings.threshold is None else number(settings.threshold),
        "judged by": "time" if settings.clock else "steps",
        "seed of the study": str(settings.seed),
    }
    table = markdown_table(["setting", "value"], [list(row) for row in shown.items()])
    return [*table, "", "The search space:", *_block(SearchSpace.from_dict(settings.space).describe(), "text")]


def _commands(known: _Known) -> list[str]:
    settings, best, lines = known.settings, known.best, []
    storage = getattr(known.study._storage, "_backend", known.study._storage)
    address = getattr(storage, "url", None) or getattr(storage, "_file_path", None)  # of a database, of a journal
    if address is not None and "://" not in address:
        address = shown_path(Path(address))
    packages = ["--gym-packages", *settings.gym_packages] if settings.gym_packages else []
    tuned = (known.result or {}).get("written")
    if tuned:
        words = ["sb3-ext", "train", "--algo", settings.algo, "--env", settings.env, "-conf", shown_path(Path(tuned))]
        lines += ["Train with the best configuration:", *_block(shlex.join([*words, *packages]))]
    elif best is not None and address is not None:
        words = ["sb3-ext", "config", "show", settings.env, settings.algo, "--trial-id", str(best.number)]
        words += ["--study-name", known.study.study_name, "--storage", address, "--yaml", *packages]
        lines += [f"Print the section of trial {best.number}:", *_block(shlex.join(words))]
    command = known.study.user_attrs.get("command")
    if command is not None:
        if best is not None and known.result is None and best.section != known.start:
            to_compare = "Compare the best trial with the start on fresh seeds, once the search has ended:"
            lines += [to_compare, *_block(_with(command, "--fresh-seeds", 5))]
        n = len(known.trials)
        lines += [f"Continue the study, with more than its {n} trials:", *_block(_with(command, "--trials", 2 * n))]
    if address is not None:
        look = shlex.join(["optuna-dashboard", address])
        lines += ["Look into it in a browser (`pip install sb3-ext[dashboard]`):", *_block(look)]
    return lines


def _with(command: str, option: str, value: int) -> str:
    return re.sub(rf" {option}[ =]\d+", "", command) + f" {option} {value}"


_SECTIONS: dict[str, _Section] = {
    "Best configuration": _best,
    "Comparison on fresh seeds": _fresh,
    "Seeds of the search": _seeds,
    "Best trials": _top,
    "Importance": _importance,
    "Plots": _plots,
    "Budget": _budget,
    "Failures": _failures,
    "What was searched": _searched,
    "Commands": _commands,
}
_SHORT = ("Best configuration", "Seeds of the search", "Best trials", "Importance", "Budget", "Failures")
