"""Writes a report when a training ends: what came out, what went wrong, and what to try next.

report:                                # true instead of a mapping: all defaults
  plots: false                         # no PNG files beside it
  threshold: 200                       # for an environment that has none of its own
  charts: [reward/shaping]             # metrics to draw beside the main ones
"""

from __future__ import annotations

import atexit
import json
import os
import signal
import sys
import time
import warnings
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar

from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.callbacks import BaseCallback, EvalCallback

from sb3_ext.callbacks.nested import all_of
from sb3_ext.callbacks.run_folder import folder_of_training
from sb3_ext.common.clean_text import mask_passwords
from sb3_ext.common.options import Number, Options, Strings, read_keywords
from sb3_ext.metrics.sample_efficiency import reward_threshold, spec_of
from sb3_ext.runs.files import atomic_write
from sb3_ext.runs.record import TRAINING_FILE
from sb3_ext.runs.rows import last_row
from sb3_ext.runs.stop_signals import catch_stop_signals, received_signal, release_stop_signals

__all__ = ["Report", "ReportOptions", "is_in_learn"]


class ReportOptions(Options):
    """
    :param plots: draw PNG files too
    :param threshold: score at which the task counts as solved, instead of the environment's own
    :param charts: metrics to draw beside those that the catalogue has as main ones
    """

    callback: ClassVar[str] = "sb3_ext.callbacks.report.Report"

    plots: bool = True
    threshold: Number | None = None
    charts: Strings = ()


class Report(BaseCallback):
    """
    Writes ``report.md`` and ``plots/`` into the run folder when a training ends, and ``training.json``, which says how
    it ended. It does nothing while the training goes on. For all algorithms of SB3.

    The report is made from the files in the folder: of the rows that the logger wrote (``LogFiles``), of evaluations,
    alerts and Monitor. So it goes behind the callbacks that write them, and what is not there is missing in it.

    After an error in ``learn``, who called it must call :meth:`close`, which ``with`` does by itself::

        with Report("run") as report:
            model.learn(100_000, callback=report)

    Otherwise, the report is written when Python ends, without plots.

    :param folder: the run folder; by default that of the training's ``EvalCallback``, or of its logger's files
    :param verbose: 1 tells where the report is
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
        self._ending: _Ending | None = None
        self._is_over = False

    def _on_training_start(self) -> None:
        if self._ending is not None:
            # The training before this one did not come to its end, and nobody told
            self.close(RuntimeError("The training did not end: another one was started."))
        folder = self._folder or folder_of_training(self)
        if folder is None:
            warnings.warn(
                "There will be no report: the callback Report needs a folder, such as Report('run'). Without one it "
                "takes that of an EvalCallback with log_path, or that of a logger which writes CSV or JSON files.",
                stacklevel=2,
            )
            return
        self._is_over = False
        catch_stop_signals(self)
        evaluations = [c for c in all_of(self.locals["callback"]) if isinstance(c, EvalCallback)]
        given = [
            self.options.threshold,
            *(getattr(getattr(c, "options", None), "threshold", None) for c in evaluations),
        ]
        training = {
            "state": "running",
            "algorithm": type(self.model).__name__,
            "env_id": getattr(spec_of(self.training_env), "id", None),
            "n_envs": self.model.n_envs,
            "steps_at_start": self.model.num_timesteps,
            "total_timesteps": self.model._total_timesteps,
            "threshold": next((threshold for threshold in given if threshold is not None), None),
            "env_threshold": reward_threshold(self.training_env),
            "evaluates": bool(evaluations),
            "deterministic_eval": evaluations[0].deterministic if evaluations else None,
            "charts": list(self.options.charts),
        }
        self._ending = _Ending(folder, self.options.plots, training)

    def _on_step(self) -> bool:
        return True

    def _on_training_end(self) -> None:
        if self._ending is None or not is_in_learn(self.model):
            return
        self._is_over = True
        last_row(self.logger, self.num_timesteps)
        reasons = [getattr(callback, "stop_reason", None) for callback in all_of(self.locals["callback"])]
        self._ending.tell(stop_reason=next((reason for reason in reasons if reason), None))
        self.close()

    def close(self, error: BaseException | None = None) -> None:
        """
        Write the report. It can be called again, and does nothing then.

        :param error: what ended the training. Without one, a training that did not come to its end was interrupted by
            Ctrl-C, as RL Zoo doesn't pass that on
        """
        ending, self._ending = self._ending, None
        if ending is None:
            return
        if error is None and not self._is_over:
            error = KeyboardInterrupt()
        path = ending.write(error, self.model.num_timesteps)
        release_stop_signals(self)
        if path is not None and self.verbose >= 1:
            print(f"Report: {path}")

    def __enter__(self) -> Report:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close(error)


class _Ending:
    """
    How a training ends. Holds nothing of the model, so that a training that nobody closes holds no memory.

    :param folder: the run folder
    :param plots: whether to draw PNG files too
    :param training: what is known when it starts
    """

    def __init__(self, folder: Path, plots: bool, training: Mapping[str, Any]) -> None:
        self._folder, self._plots = folder, plots
        self._training = {**training, "started": time.strftime("%Y-%m-%dT%H:%M:%S%z")}
        self._start = time.perf_counter()
        self._pid = os.getpid()
        self._save(self._training)
        atexit.register(self._at_exit)

    def tell(self, **facts: Any) -> None:
        """
        :param facts: what else is known of the training now
        """
        self._training |= facts

    def write(self, error: BaseException | None, steps: int | None, plots: bool = True) -> Path | None:
        """
        :param error: what ended the training, if anything did
        :param steps: timesteps at the end, if they are known
        :param plots: whether plots can be drawn
        :return: the report; ``None`` when it could not be written, which is told in a warning
        """
        atexit.unregister(self._at_exit)
        # Not before: it asks the catalogue of metrics, which is in this package
        from sb3_ext.runs.report.report import write_report

        state = "finished" if error is None else "interrupted" if isinstance(error, KeyboardInterrupt) else "failed"
        ending: dict[str, Any] = {"state": state, "seconds": round(time.perf_counter() - self._start, 3)}
        if steps is not None:
            ending["steps"] = int(steps)
        if state == "interrupted":
            ending["signal"] = (received_signal() or signal.SIGINT).name
        if state == "failed":
            ending["error"] = f"{type(error).__name__}: {error}"[:1000]
        try:
            self._save({**self._training, **ending})
            # Whoever sent a signal may wait for some seconds only, and a run on W&B is still to be finished
            return write_report(self._folder, plots=self._plots and plots and received_signal() is None)
        except Exception as problem:
            # A training must not fail at its end for want of a report
            warnings.warn(
                f"There is no report in {self._folder} ({type(problem).__name__}: {problem}). To try again: "
                f"sb3-ext report {self._folder}",
                stacklevel=3,
            )
            return None

    def _save(self, training: Mapping[str, Any]) -> None:
        with atomic_write(self._folder / TRAINING_FILE) as unfinished:
            unfinished.write_text(mask_passwords(f"{json.dumps(training, indent=2)}\n"), encoding="utf-8")

    def _at_exit(self) -> None:
        if os.getpid() != self._pid:
            return  # a copy of the process, whose training this is not
        # matplotlib wants to start threads, and none can be started any more
        self.write(getattr(sys, "last_value", None) or KeyboardInterrupt(), None, plots=False)


def is_in_learn(model: BaseAlgorithm) -> bool:
    """
    RL Zoo tells its first callback that training has ended after Ctrl-C and errors too, when ``learn`` was left.

    :param model: of a callback that is told so
    :return: whether its ``learn`` says it
    """
    frame = sys._getframe()
    while frame is not None:
        if frame.f_code.co_name == "learn" and frame.f_locals.get("self") is model:
            return True
        frame = frame.f_back  # type: ignore[assignment]
    return False
