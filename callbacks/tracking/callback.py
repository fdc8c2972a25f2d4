"""Tracks a training with a service that keeps runs."""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from sb3_ext.callbacks.base import RunCallback
from sb3_ext.callbacks.tracking.dashboard import SOME_ENV, dashboard
from sb3_ext.callbacks.tracking.files import RunFiles
from sb3_ext.callbacks.tracking.mlflow_tracker import MlflowTracker
from sb3_ext.callbacks.tracking.options import TrackingOptions
from sb3_ext.callbacks.tracking.tracker import Tracker, tolerated
from sb3_ext.callbacks.tracking.wandb_tracker import WandbTracker
from sb3_ext.callbacks.tracking.writer import TrackerWriter, gradient_histograms
from sb3_ext.common.clean_text import mask_passwords
from sb3_ext.common.options import read_keywords
from sb3_ext.metrics.bounds import remember_bounds
from sb3_ext.runs.files import write_json
from sb3_ext.runs.run import Phase
from sb3_ext.runs.run_zip import RUN_FILE, tracked_id

__all__ = ["Tracking"]

#: Seconds between checks of the run folder
_LOOK_EVERY = 5.0
#: Seconds between messages about the same alert
_ALERT_EVERY = 600.0
#: Rows after which all metrics are known; the first is written before the first update
_ROWS_FOR_DASHBOARD = 2
_TRACKERS: dict[str, type[WandbTracker] | type[MlflowTracker]] = {"wandb": WandbTracker, "mlflow": MlflowTracker}
_NOT_FOR_TEXT = ("stdout", "log", "json", "csv")


class Tracking(RunCallback):
    """
    Opens a run on Weights & Biases or MLflow when a training starts, logs each row of SB3's logger to it, and finishes
    it, even after errors and Ctrl-C. Works with every SB3 algorithm.

    If a run is already open, as with RL Zoo's ``--track``, it continues that run: it adds what is missing and finishes
    it. If W&B reads TensorBoard's files for that run, no number is logged twice.

    In a ``with`` block, the run of a training that fails is finished at once, see :class:`RunCallback`. Otherwise it is
    finished when Python exits.

    :param folder: the run folder, whose videos, checkpoints and best model are logged, and which is uploaded at the
        end; default: where the training's ``EvalCallback`` saves the best model
    :param finish: ``False`` keeps the run open after the training, until :meth:`close` is called
    :param verbose: 1 prints what was not uploaded
    :param options: what to track
    :param fields: fields of :class:`TrackingOptions`, instead of ``options``: to, project, experiment, tags, …
    """

    state_names: ClassVar[tuple[str, ...]] = ("_next_gradients",)
    _open: ClassVar[Tracking | None] = None

    def __init__(
        self,
        folder: str | None = None,
        finish: bool = True,
        verbose: int = 0,
        *,
        options: TrackingOptions | None = None,
        **fields: Any,
    ) -> None:
        super().__init__(verbose)
        self.options = read_keywords(TrackingOptions, options, fields, self)
        self._folder = None if folder is None else Path(folder)
        self._finish = finish
        self._tracker: Tracker = _TRACKERS[self.options.to](self.options)
        #: ``None`` while no run is open
        self._writer: TrackerWriter | None = None
        self._files: RunFiles | None = None
        self._next_look = 0.0
        self._next_gradients = float("inf")
        self._alerted: dict[str, float] = {}

    def _on_training_start(self) -> None:
        other = Tracking._open
        if other is not None and other is not self:
            if other.run is self.run:
                warnings.warn(
                    "This training is tracked already: the second Tracking callback does nothing.", stacklevel=2
                )
                return
            other.close(RuntimeError("The training did not end: another one was started."))
        if self._writer is None:
            self._start()
        assert self._writer is not None
        if self._writer not in self.logger.output_formats:
            self.logger.output_formats.append(self._writer)
        if self.options.alerts:
            self.run.on("alert", self.alert)
        self.run.write_last_row()
        self.run.at_end(Phase.TRACKING, self._end)
        self._next_gradients = self._after(self.num_timesteps)

    def _start(self) -> None:
        facts = self.run.facts
        # Not run.folder: a logger may write anywhere, and all that is there would be uploaded
        folder = self._folder or self.run.given_folder or self.run.stock.best_model_folder
        continued = tracked_id(folder, self._tracker.key) if folder is not None and facts.resumes else None
        address = self._tracker.start(facts, self.logger.output_formats, continued)
        self._writer, Tracking._open = TrackerWriter(self._tracker), self
        self._files = None
        if folder is not None and folder.is_dir():
            self._files = RunFiles(folder, self._tracker, self._writer, time.time())
            known = {"algo": facts.algo, "env_id": facts.env_id, "folder": folder.name}
            write_json(folder / RUN_FILE, {**address, **known})
        self._has_dashboard = False
        # RL Zoo closes the environments before the run is finished
        self._shown_env = facts.env_id or SOME_ENV
        remember_bounds(self.model)

    def state(self) -> dict[str, Any]:
        return {**super().state(), "seconds": None if self._files is None else time.time() - self._files.started}

    def restore(self, state: Mapping[str, Any]) -> None:
        super().restore(state)
        if self._files is not None and state["seconds"] is not None:
            self._files.started = time.time() - state["seconds"]

    def _on_rollout_start(self) -> None:
        if self.num_timesteps >= self._next_gradients:
            self._next_gradients = self._after(self.num_timesteps)
            for name, numbers in gradient_histograms(self.model.policy).items():
                self.logger.record(name, numbers, exclude=_NOT_FOR_TEXT)

    def _after(self, timesteps: int) -> float:
        """When the next histograms of gradients are due."""
        times = self.options.gradients
        length = self.model._total_timesteps - self.model._num_timesteps_at_start
        return timesteps + length / times if times else float("inf")

    def _on_rollout_end(self) -> None:
        now = time.monotonic()
        if now >= self._next_look and self._writer is not None:
            self._next_look = now + _LOOK_EVERY
            self._look()

    def _look(self, at_the_end: bool = False) -> None:
        """Log what is new. If that fails, there is a warning and training continues."""
        for part in (self._log_files, self._make_dashboard, self._upload):
            with tolerated(self._tracker.title):
                part(at_the_end)

    def _log_files(self, at_the_end: bool) -> None:
        if self._files is not None:
            self._files.log_checkpoint_times()
            if self.options.videos:
                self._files.log_videos(self.num_timesteps)

    def _make_dashboard(self, at_the_end: bool) -> None:
        assert self._writer is not None
        is_due = at_the_end or not self._has_dashboard
        if not self.options.dashboard or not is_due or self._writer.rows < _ROWS_FOR_DASHBOARD:
            return
        self._has_dashboard = True
        layout = dashboard(self._writer.names, self.model, self._tracker.axis.metric, self._shown_env)
        if self._files is not None:
            layout.save(self._files.folder / "dashboard.json")
        if at_the_end:
            self._tracker.show(layout)

    def _upload(self, at_the_end: bool) -> None:
        if self._files is None:
            return
        if self.options.best_model:
            self._files.upload_best_model(at_once=at_the_end)
        if at_the_end and self.options.upload_mb:
            left_out = self._files.upload_folder(self.options.upload_mb)
            if left_out:
                limit = f"upload_mb: {self.options.upload_mb:g}"
                self.say(f"Not uploaded to {self._tracker.title} ({limit}): {', '.join(left_out)}")

    def alert(self, rule: str, title: str, text: str, severity: str = "warning") -> None:
        """Send a message through the tracker, at most one every ten minutes per rule.

        :param rule: id of the alert
        :param title: a few words
        :param text: what was seen, and what to do
        :param severity: ``error``, ``warning`` or ``hint``: the level of the message
        """
        now = time.monotonic()
        if self._writer is None or now < self._alerted.get(rule, 0.0):
            return
        self._alerted[rule] = now + _ALERT_EVERY
        self._tracker.alert(rule, title, mask_passwords(text), severity)

    def _end(self) -> None:
        if self._finish or self.run.error is not None:
            self._finish_tracker(self.run.error)

    def close(self, error: BaseException | None = None) -> None:
        """Upload what is left and finish the run. Further calls do nothing.

        :param error: what ended the training. Without one, an incomplete training counts as interrupted
        """
        super().close(error)
        self._finish_tracker(error)

    def _finish_tracker(self, error: BaseException | None) -> None:
        writer = self._writer
        if writer is None:
            return
        try:
            if not self.run.is_at_exit:  # uploads need threads, which can't be started any more
                self._look(at_the_end=True)
        finally:
            self._writer, self._files = None, None
            Tracking._open = None
            if writer in self.logger.output_formats:
                self.logger.output_formats.remove(writer)
            self._tracker.finish(error)
