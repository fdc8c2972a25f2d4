"""Writes the report of a run from the files in its folder, at the end of training or later.

Each section returns lines of Markdown. If a file is missing, the section says so.
"""

import os
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import yaml

from sb3_ext.common.clean_text import mask_passwords, printable
from sb3_ext.runs.agents.checkpoint import best_video
from sb3_ext.runs.alive import state_of
from sb3_ext.runs.files import ALERTS_FILE, RUN_FILE, atomic_write
from sb3_ext.runs.logs import MAX_POINTS
from sb3_ext.runs.plain_files import as_number
from sb3_ext.runs.record import RunRecord, read_record
from sb3_ext.runs.report import curves
from sb3_ext.runs.report import score as scores
from sb3_ext.runs.report.advice import sorted_alerts, suggestions, trend_of
from sb3_ext.runs.report.charts import markdown_table, number
from sb3_ext.runs.report.commands import shown_path, train_command, watch_commands

__all__ = ["REPORT_FILE", "make_report", "report_parts", "write_report"]

REPORT_FILE = "report.md"


def write_report(folder: str | os.PathLike[str], plots: bool = True, threshold: float | None = None) -> Path:
    """Write ``report.md`` and plots to a run folder. If a plot can't be drawn, there is a warning.

    :param folder: the run folder
    :param plots: also draw PNG files in ``plots/``
    :param threshold: score at which the task counts as solved; default: from the run's files
    :return: path of the report
    :raises ValueError: if the folder is not a run folder; names the nearest one
    """
    run = _with_threshold(read_record(folder), threshold)
    if plots:
        _draw(run)
    path = run.folder / REPORT_FILE
    with atomic_write(path) as unfinished:
        unfinished.write_text(make_report(run), encoding="utf-8")
    return path


def make_report(run: RunRecord | str | os.PathLike[str], threshold: float | None = None) -> str:
    """
    :param run: a run, or its folder
    :param threshold: score at which the task counts as solved; default: from the run's files
    :return: the report, in Markdown
    :raises ValueError: if the folder is not a run folder; names the nearest one
    """
    if not isinstance(run, RunRecord):
        run = read_record(run)
    head, sections = report_parts(_with_threshold(run, threshold))
    lines = [*head, ""]
    for title, section in sections.items():
        lines += [f"## {title}", *section]
        lines += [""] if lines[-1] else []
        plot = _PLOTS_BELOW.get(title)
        if plot is not None and (run.folder / "plots" / f"{plot}.png").is_file():
            lines += [f"![{plot}](plots/{plot}.png)", ""]
    # Reports of untrusted folders are pasted into chats and shown in terminals
    return printable(mask_passwords("\n".join(lines).rstrip() + "\n"))


def report_parts(run: RunRecord) -> tuple[list[str], dict[str, list[str]]]:
    """:return: the lines above the first section, and those of each section by its title; passwords are not masked"""
    before = run.args.get("trained_agent")
    algorithm = run.algo or run.training.get("algorithm") or "Training"
    head = [
        f"# {algorithm}{'' if run.env_id is None else f' on {run.env_id}'}: {run.folder.resolve().name}",
        "",
        _how_it_ended(run) + (f" It continued from `{before}`, whose steps are not counted." if before else ""),
        "",
        scores.verdict(run),
    ]
    return head, {title: write(run) for title, write in _SECTIONS}


def _with_threshold(run: RunRecord, threshold: float | None) -> RunRecord:
    if threshold is None:
        return run
    return replace(run, training={**run.training, "threshold": float(threshold), "threshold_source": "as given"})


def _draw(run: RunRecord) -> None:
    try:
        from sb3_ext.runs.report.plots import write_plots

        write_plots(run)
    # A report without plots is better than none, whatever is wrong with matplotlib or a number
    except Exception as error:
        what = f"The plots of {run.folder} could not be drawn ({type(error).__name__}: {error})"
        warnings.warn(f"{what}. The report has text charts.", stacklevel=3)


def _how_it_ended(run: RunRecord) -> str:
    steps, planned = run.steps, run.planned_steps
    length = "after an unknown number of steps" if steps is None else f"after {number(steps)} steps"
    of = f" of {number(planned)}" if planned is not None and steps is not None and steps < planned else ""
    state = state_of(run.training)
    if state == "finished":
        by = f" ({run.training.get('stop_reason') or 'a callback ended it'})" if of else ""
        return f"Training finished {length}{of}{by}."
    if state == "interrupted":
        named = run.training.get("signal") or "SIGINT"
        by = "Ctrl-C" if named == "SIGINT" else f"`{named}`"
        return f"**Training was interrupted** {length}{of} by {by}: this report covers the part before."
    if state == "failed":
        return f"**Training failed** {length}{of}: `{run.training.get('error') or 'unknown error'}`"
    if state in ("running", "killed", "unknown"):
        or_killed = ", or its process was killed" if state == "unknown" else ""
        what = "was killed" if state == "killed" else "has not ended"
        return f"**Training {what}**{or_killed}: {length}{of}."
    return f"The files don't say how training ended (`{RUN_FILE}` is missing): {length}{of}."


def _next_steps(run: RunRecord) -> list[str]:
    said = suggestions(run)
    if not said:
        trend = trend_of(run.settled_score)
        how = "" if trend is None else f" The score was {trend.kind} at the end."
        return [f"Nothing stands out.{how} Try other seeds before you trust the score.", ""]
    return [*(f"{index}. {text}" for index, text in enumerate(said, 1)), ""]


def _alerts(run: RunRecord) -> list[str]:
    if run.alerts is None:
        return [f"Missing: there is no `{ALERTS_FILE}`; alerts were off.", ""]
    fired = sorted_alerts(run)
    if not fired:
        return ["No alert fired.", ""]
    rows = []
    for alert in sorted(fired, key=lambda alert: str(alert.get("id"))):
        share = alert.get("share")
        cells = [
            f"`{alert.get('id')}`",
            f"`{alert.get('metric')}`" if alert.get("metric") else "",
            number(float(alert["count"])),
            "" if share is None else f"{100 * float(share):.3g} %",
            *("" if alert.get(key) is None else number(float(alert[key])) for key in ("first_step", "last_step")),
            str(alert.get("advice") or ""),
        ]
        rows.append(cells)
    header = ["alert", "metric", "rows", "of rows checked", "first step", "last step", "what to tune"]
    return [*markdown_table(header, rows), ""]


def _speed(run: RunRecord) -> list[str]:
    rows = []
    if run.steps is not None:
        rows.append(["steps", number(run.steps)])
    if run.seconds is not None:
        rows.append(["time", f"{run.seconds / 3600:.3g} h ({number(run.seconds)} s)"])
    if run.steps and run.seconds:
        rate = as_number((run.steps - (run.training.get("steps_at_start") or 0)) / run.seconds)
        rows += [] if rate is None else [["steps per second, overall", number(round(rate))]]
    for name, what in (("time/fps", "steps per second, last logged"), ("time/n_updates", "updates")):
        latest = run.progress.latest(name)
        if latest is not None:
            rows.append([f"{what} (`{name}`)", number(latest)])
    if not rows:
        return ["Missing: no file has times or steps.", ""]
    missing = [] if run.seconds is not None else ["Missing: no file has times.", ""]
    return [*markdown_table(["what", "value"], rows), "", *missing]


def _commands(run: RunRecord) -> list[str]:
    lines = []
    watch = watch_commands(run)
    if watch:
        lines += ["```bash", *(f"{command}  # watch {what}" for what, command in watch), "```"]
        if run.final_model is not None and not run.final_model.is_file() and run.training.get("state") == "running":
            lines.append(f"`{run.final_model.name}` does not exist yet: RL Zoo saves it at the end of training.")
    else:
        models = [shown_path(path) for path in sorted(run.folder.glob("*.zip"))]
        found = f" Models in it: {', '.join(f'`{model}`' for model in models)}." if models else " It contains no model."
        lines.append(f"The folder is not where RL Zoo's `enjoy` looks (`<folder>/<algo>/<env>_<number>`).{found}")
    video = best_video(run.folder)
    if video is not None:
        lines += ["", f"Video of the best model: [{video.name}](videos/{video.name})"]
    again = train_command(run)
    if again is not None:
        lines += ["", "The same training again (if its hyperparameter file has changed, use the config below):"]
        lines += ["```bash", again, "```"]
    if run.command is not None:
        lines += ["As typed, without quotes:", "```text", run.command, "```"]
    if again is None and run.command is None:
        lines += ["", "Missing: there is no `args.yml` or `command.txt` from RL Zoo, so the command is unknown."]
    return [*lines, ""]


def _config(run: RunRecord) -> list[str]:
    known = run.config or run.training.get("hyperparams")
    if not known:
        return ["Missing: there is no `config.yml` from RL Zoo.", ""]
    source = [] if run.config else [f"There is no `config.yml` from RL Zoo. The model's parameters, from `{RUN_FILE}`:"]
    written = yaml.safe_dump(dict(known), sort_keys=True, allow_unicode=True).rstrip().split("\n")
    return [*source, "```yaml", *written, "```", ""]


def _sources(run: RunRecord) -> list[str]:
    found = []
    if run.progress.file:
        n_earlier = run.progress.n_earlier
        earlier = f"; {n_earlier} of an earlier training in this folder are left out" if n_earlier else ""
        thinned = f"; curves show about {MAX_POINTS:,} of them" if run.progress.n_rows > MAX_POINTS else ""
        rows = f"{run.progress.n_rows} rows{_broken(run.progress.n_broken)}"
        found.append(f"`{run.progress.file}`: {rows}{earlier}{thinned}")
    if run.evaluations_file is not None:
        found.append(f"`{run.evaluations_file}`: {len(run.evaluations)} evaluations")
    if run.episodes.n_envs:
        broken = _broken(run.episodes.n_broken)
        found.append(f"{run.episodes.n_envs} Monitor files: {len(run.episodes.scores)} episodes{broken}")
    has_alerts, has_command = run.alerts is not None, run.command is not None
    are_there = (has_alerts, run.training, run.args, run.config, has_command)
    names = (ALERTS_FILE, RUN_FILE, "args.yml", "config.yml", "command.txt")
    found += [f"`{name}`" for name, is_there in zip(names, are_there, strict=True) if is_there]
    return [*(f"- {what}" for what in found), *(f"- Problem: {problem}" for problem in run.problems), ""]


def _broken(n_broken: int) -> str:
    return f", and {n_broken} that could not be read (left out)" if n_broken else ""


_SECTIONS: tuple[tuple[str, Callable[[RunRecord], list[str]]], ...] = (
    ("What to try next", _next_steps),
    ("Score", scores.score),
    ("Sample efficiency", scores.efficiency),
    ("Alerts", _alerts),
    ("Curves", curves.curves),
    ("Losses side by side", curves.losses),
    ("Speed", _speed),
    ("Watch and repeat", _commands),
    ("Config", _config),
    ("All numbers", curves.all_numbers),
    ("Made from", _sources),
)
_PLOTS_BELOW = {"Curves": "policy", "Losses side by side": "losses"}
