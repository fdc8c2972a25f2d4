"""Writes the report of a run from the files in its folder, at the end of training or later."""

import os
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from sb3_ext.common.clean_text import mask_passwords, printable
from sb3_ext.runs.files import atomic_write
from sb3_ext.runs.record import RunRecord, read_record
from sb3_ext.runs.report import curves, sections
from sb3_ext.runs.report import score as scores

__all__ = ["REPORT_FILE", "make_report", "write_report"]

REPORT_FILE = "report.md"

_SECTIONS: tuple[tuple[str, Callable[[RunRecord], list[str]]], ...] = (
    ("What to try next", sections.next_steps),
    ("Score", scores.score),
    ("Sample efficiency", scores.efficiency),
    ("Alerts", sections.alerts),
    ("Curves", curves.curves),
    ("Losses side by side", curves.losses),
    ("Speed", sections.speed),
    ("Watch and repeat", sections.commands),
    ("Config", sections.config),
    ("All numbers", curves.all_numbers),
    ("Made from", sections.sources),
)
_PLOTS_BELOW = {"Curves": "policy", "Losses side by side": "losses"}


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
    run = _with_threshold(run, threshold)
    algorithm = run.algo or run.training.get("algorithm") or "Training"
    lines = [
        f"# {algorithm}{'' if run.env_id is None else f' on {run.env_id}'}: {run.folder.resolve().name}",
        "",
        sections.how_it_ended(run),
        "",
        scores.verdict(run),
        "",
    ]
    for title, write in _SECTIONS:
        lines += [f"## {title}", *write(run)]
        lines += [""] if lines[-1] else []
        plot = _PLOTS_BELOW.get(title)
        if plot is not None and (run.folder / "plots" / f"{plot}.png").is_file():
            lines += [f"![{plot}](plots/{plot}.png)", ""]
    # Reports of untrusted folders are pasted into chats and shown in terminals
    return printable(mask_passwords("\n".join(lines).rstrip() + "\n"))


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
