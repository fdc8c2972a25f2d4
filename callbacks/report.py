"""Writes a report when a training ends: the result, what went wrong, and what to try next.

report:                                # or true instead of a mapping, for all defaults
  plots: false                         # no PNG files
  charts: [reward/shaping]             # more metrics to draw
"""

import os
import warnings
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from sb3_ext.callbacks.base import RunCallback, ScoreOptions
from sb3_ext.common.full_disk import is_full_disk
from sb3_ext.common.options import Strings, read_keywords
from sb3_ext.runs.report.report import write_report
from sb3_ext.runs.run import Phase

__all__ = ["Report", "ReportOptions"]


class ReportOptions(ScoreOptions):
    """
    :param plots: also draw PNG files
    :param threshold: see :class:`ScoreOptions`
    :param charts: metrics to draw in addition to the main ones
    """

    callback: ClassVar[str] = "sb3_ext.callbacks.report.Report"

    plots: bool = True
    charts: Strings = ()


class Report(RunCallback):
    """
    Writes ``report.md``, ``plots/`` and ``run.json`` to the run folder when a training ends. Works with every SB3
    algorithm.

    The report uses the files in the folder: logged rows (``LogFiles``), evaluations, alerts and Monitor's files. It
    says what is missing.

    In a ``with`` block, a training that fails has a report at once, see :class:`RunCallback`. Otherwise the report is
    written when Python exits, without plots.

    :param folder: the run folder; default: that of the training's ``EvalCallback`` or logger
    :param verbose: 1 prints where the report is
    :param options: what to write
    :param fields: fields of :class:`ReportOptions`, instead of ``options``
    """

    def __init__(
        self,
        folder: str | os.PathLike[str] | None = None,
        verbose: int = 1,
        *,
        options: ReportOptions | None = None,
        **fields: Any,
    ) -> None:
        super().__init__(verbose)
        self.options = read_keywords(ReportOptions, options, fields, self)
        self._folder = None if folder is None else Path(folder)

    def _on_training_start(self) -> None:
        folder = self._folder or self.run.folder
        if folder is None:
            warnings.warn(
                "There will be no report: Report needs a folder, such as Report('run'), an EvalCallback with log_path, "
                "or a logger that writes CSV or JSON files.",
                stacklevel=2,
            )
            return
        self.run.facts.charts = list(self.options.charts)
        self.run.keep(folder)
        self.run.write_last_row()
        self.run.at_end(Phase.REPORT, partial(self._write, folder))

    def _write(self, folder: Path) -> None:
        # Whoever interrupts a training doesn't wait for seconds, and matplotlib can't start threads when Python exits
        plots = self.options.plots and not self.run.is_interrupted and not self.run.is_at_exit
        try:
            path = write_report(folder, plots=plots)
        # A training must not fail at its end because of its report
        except Exception as problem:
            if is_full_disk(problem):
                raise
            warnings.warn(
                f"There is no report in {folder} ({type(problem).__name__}: {problem}). To try again: "
                f"sb3-ext report {folder}",
                stacklevel=3,
            )
        else:
            self.say(f"Report: {path}")
