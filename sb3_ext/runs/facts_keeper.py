"""Keeps ``run.json`` and the registry's entry of a training up to date, so that a killed run has a score too."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sb3_ext.common.full_disk import is_full_disk, tolerate_full_disk
from sb3_ext.runs.facts import time_now
from sb3_ext.runs.registry import Registry
from sb3_ext.runs.stop_signals import received_signal

if TYPE_CHECKING:
    from sb3_ext.runs.run import Run

__all__ = ["FactsKeeper"]

#: Seconds between updates; an evaluation is one too
_UPDATE_EVERY = 60.0


class FactsKeeper:
    """
    :param run: the training
    :param log_folder: the folder whose registry lists the run, if any
    """

    def __init__(self, run: Run, log_folder: str | os.PathLike[str] | None) -> None:
        self._run = run
        self._registry = None if log_folder is None else Registry(log_folder)
        self._folders: set[Path] = set()
        self._updated = time.perf_counter()

    def keep(self, folder: Path) -> bool:
        """Write ``run.json`` into a folder; returns whether it was not kept there before."""
        self.save(folder)
        is_new = folder not in self._folders
        self._folders.add(folder)
        return is_new

    def see_row(self, step: int, row: Mapping[str, Any]) -> Mapping[str, Any]:
        """Take the score from a row of metrics."""
        is_evaluation = self._run.facts.see_row(row)
        if not self._run.is_over and (is_evaluation or time.perf_counter() - self._updated > _UPDATE_EVERY):
            self._updated = time.perf_counter()
            self._measure()
            try:
                for folder in self._folders:
                    self.save(folder)
            except OSError as error:
                warnings.warn(f"{error.filename} could not be written: {error.strerror}.", stacklevel=2)
        return {}

    def save(self, folder: Path) -> None:
        run = self._run
        # An evaluation may have ended after the last row
        run.facts.see_row(run.model.logger.name_to_value)
        with tolerate_full_disk(folder):
            run.facts.save(folder)
            self._update_registry(folder)

    def _update_registry(self, folder: Path) -> None:
        if self._registry is not None and folder == self._run.given_folder:
            try:
                self._registry.update(folder, vars(self._run.facts))
            # Some network folders have no locks
            except (OSError, NotImplementedError) as error:
                if is_full_disk(error):
                    raise
                what = f"{self._registry.file} could not be written ({error}). Training continues"
                warnings.warn(f"{what}; `sb3-ext runs` finds the run by its folder.", stacklevel=2)
                self._registry = None

    def complete(self) -> str:
        """The training has ended: add how, and say it in a sentence."""
        run, facts, error = self._run, self._run.facts, self._run.error
        facts.state = "finished" if error is None else "interrupted" if run.is_interrupted else "failed"
        facts.ended = time_now()
        self._measure()
        if run.is_interrupted:
            signal = received_signal()
            facts.signal = "SIGINT" if signal is None else signal.name
        elif error is not None:
            facts.error = f"{type(error).__name__}: {error}"[:1000]
        why = next((f" ({reason})" for reason in (facts.signal, facts.stop_reason) if reason), "")
        return f"Run {facts.id} {facts.state} at step {facts.steps:,}{why}"

    def _measure(self) -> None:
        self._run.facts.seconds = round(self._run.seconds, 3)
        self._run.facts.steps = int(self._run.model.num_timesteps)
