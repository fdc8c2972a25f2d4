"""Tracks a training on Weights & Biases."""

from __future__ import annotations

import os
import secrets
import time
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from stable_baselines3.common.logger import TensorBoardOutputFormat

from sb3_ext.callbacks.base import RunCallback
from sb3_ext.callbacks.tracking.dashboard import SOME_ENV, dashboard, make_workspace
from sb3_ext.callbacks.tracking.files import RunFiles
from sb3_ext.callbacks.tracking.options import TrackingOptions
from sb3_ext.callbacks.tracking.writer import WandbWriter, gradient_histograms
from sb3_ext.common.clean_text import mask_passwords, masked_command_line
from sb3_ext.common.options import read_keywords
from sb3_ext.common.usage_error import UsageError
from sb3_ext.metrics.bounds import remember_bounds
from sb3_ext.runs.facts import plain
from sb3_ext.runs.files import write_json
from sb3_ext.runs.run import Phase
from sb3_ext.runs.run_zip import RUN_FILE
from sb3_ext.runs.wandb_run import tracking_environment

if TYPE_CHECKING:
    from wandb import Run as WandbRun

__all__ = ["Tracking"]

#: Seconds between checks of the run folder
_LOOK_EVERY = 5.0
#: Seconds between messages about the same alert
_ALERT_EVERY = 600.0
#: W&B's level of an alert, by its severity
_LEVELS = {"error": "ERROR", "warning": "WARN", "hint": "INFO"}
#: Rows after which all metrics are known; the first is written before the first update
_ROWS_FOR_DASHBOARD = 2
#: W&B's own exit code for Ctrl-C
_CTRL_C = 255
_NOT_FOR_TEXT = ("stdout", "log", "json", "csv")


class Tracking(RunCallback):
    """
    Opens a run on Weights & Biases when a training starts, logs each row of SB3's logger to it, and finishes it, even
    after errors and Ctrl-C. Works with every SB3 algorithm.

    If a run is already open, as with RL Zoo's ``--track``, it continues that run: it adds what is missing and finishes
    it. If W&B reads TensorBoard's files for that run, no number is logged twice.

    In a ``with`` block, the run of a training that fails is finished at once, see :class:`RunCallback`. Otherwise it is
    finished when Python exits.

    :param folder: the run folder, whose videos, checkpoints and best model are logged, and which is uploaded at the
        end; default: where the training's ``EvalCallback`` saves the best model
    :param finish: ``False`` keeps the run open after the training, until :meth:`close` is called
    :param verbose: 1 prints what was not uploaded
    :param options: what to track
    :param fields: fields of :class:`TrackingOptions`, instead of ``options``: project, entity, group, tags, mode, …
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
        self._wandb: WandbRun | None = None
        self._writer: WandbWriter | None = None
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
        if self._wandb is None:
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
        import wandb

        facts = self.run.facts
        given = wandb.run
        # Not run.folder: a logger may write anywhere, and all that is there would be uploaded
        folder = self._folder or self.run.given_folder or self.run.stock.best_model_folder
        continued = tracking_environment(folder) if folder is not None and facts.resumes else {}
        run = given if given is not None else self._new_run(facts.algo, continued.get("WANDB_RUN_ID"))
        self._wandb, Tracking._open = run, self
        synced = given is not None and _is_synced(self.logger.output_formats)
        vec_steps_of = facts.n_envs if facts.axis == "vec_steps" and not synced else None
        self._writer = WandbWriter(run, synced, vec_steps_of)
        if given is not None:
            self._warn_of_unused_options(given)
            # RL Zoo's --track uploads all arguments, including --storage with its password
            masked = {name: plain(value) for name, value in given.config.items() if plain(value) != value}
            run.config.update(masked, allow_val_change=True)
        run.config.update(facts.config(), allow_val_change=True)
        self._files = None
        if folder is not None and folder.is_dir():
            self._files = RunFiles(folder, run, self._writer, time.time())
            _write_run_file(folder, run, facts.algo, facts.env_id)
        self._has_dashboard = False
        # RL Zoo closes the environments before the run is finished
        self._shown_env = facts.env_id or SOME_ENV
        remember_bounds(self.model)

    def _new_run(self, algo: str, continued: str | None) -> WandbRun:
        """:param continued: id of the run of a training that is resumed"""
        import wandb

        options = self.options
        run_id = os.environ.get("WANDB_RUN_ID") or continued or secrets.token_hex(4)
        # The table and the report already show the numbers
        settings = wandb.Settings(max_end_of_run_history_metrics=0, max_end_of_run_summary_metrics=0)
        try:
            with masked_command_line():  # W&B uploads it
                return wandb.init(
                    project=options.chosen_project,
                    entity=options.entity,
                    group=options.group,
                    tags=options.tags or None,
                    mode=options.mode,
                    notes=options.notes,
                    id=run_id,
                    resume="allow" if run_id == continued else None,
                    name=options.name or f"{algo}-{run_id}",
                    settings=settings,
                )
        except wandb.Error as error:
            hint = "Log in with `wandb login`, or set WANDB_MODE=offline to keep the run on this machine."
            raise UsageError(f"W&B: {error}\n{hint}") from error

    def _warn_of_unused_options(self, run: WandbRun) -> None:
        names = ("project", "entity", "group", "notes", "name", "mode")
        given = {name: getattr(self.options, name) for name in names}
        unused = [name for name, value in given.items() if value is not None and value != getattr(run, name, None)]
        if unused:
            warnings.warn(
                f"tracking: {', '.join(unused)}: not used, because the run {run.name!r} was already open in project "
                f"{run.project!r}. Omit --track, or give it these options.",
                stacklevel=2,
            )
        if self.options.tags:
            run.tags = (*(run.tags or ()), *self.options.tags)

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
        if now >= self._next_look and self._wandb is not None:
            self._next_look = now + _LOOK_EVERY
            self._look()

    def _look(self, at_the_end: bool = False) -> None:
        """Log what is new. If that fails, there is a warning and training continues."""
        for part in (self._log_files, self._make_dashboard, self._upload):
            try:
                part(at_the_end)
            # wandb raises its own errors and those of the network
            except Exception as error:
                message = mask_passwords(f"{type(error).__name__}: {error}")
                warnings.warn(f"Part of the run was not sent to W&B: {message}", stacklevel=2)

    def _log_files(self, at_the_end: bool) -> None:
        if self._files is not None:
            self._files.log_checkpoint_times()
            if self.options.videos:
                self._files.log_videos(self.num_timesteps)

    def _make_dashboard(self, at_the_end: bool) -> None:
        assert self._wandb is not None and self._writer is not None
        is_due = at_the_end or not self._has_dashboard
        if not self.options.dashboard or not is_due or self._writer.rows < _ROWS_FOR_DASHBOARD:
            return
        self._has_dashboard = True
        layout = dashboard(self._writer.names, self.model, self._writer.step_metric, self._shown_env)
        if self._files is not None:
            layout.save(self._files.folder / "dashboard.json")
        if at_the_end:
            make_workspace(layout, self._wandb)

    def _upload(self, at_the_end: bool) -> None:
        if self._files is None:
            return
        if self.options.best_model:
            self._files.upload_best_model(at_once=at_the_end)
        if at_the_end and self.options.upload_mb:
            left_out = self._files.upload_folder(self.options.upload_mb)
            if left_out:
                self.say(f"Not uploaded to W&B (upload_mb: {self.options.upload_mb:g}): {', '.join(left_out)}")

    def alert(self, rule: str, title: str, text: str, severity: str = "warning") -> None:
        """Send a message through W&B, at most one every ten minutes per rule.

        :param rule: id of the alert
        :param title: a few words
        :param text: what was seen, and what to do
        :param severity: ``error``, ``warning`` or ``hint``: the level of the message
        """
        now = time.monotonic()
        if self._wandb is None or now < self._alerted.get(rule, 0.0):
            return
        self._alerted[rule] = now + _ALERT_EVERY
        self._wandb.alert(title[:63], mask_passwords(text), level=_LEVELS[severity], wait_duration=_ALERT_EVERY)

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
        run, writer = self._wandb, self._writer
        if run is None or writer is None:
            return
        interrupted = isinstance(error, KeyboardInterrupt)
        try:
            if not self.run.is_at_exit:  # uploads need threads, which can't be started any more
                self._look(at_the_end=True)
        finally:
            self._wandb, self._writer, self._files = None, None, None
            Tracking._open = None
            if writer in self.logger.output_formats:
                self.logger.output_formats.remove(writer)
            end = "complete" if error is None else mask_passwords(f"{type(error).__name__}: {error}")
            run.summary["end"] = "interrupted" if interrupted else end[:300]
            run.finish(exit_code=_CTRL_C if interrupted else int(error is not None))


def _is_synced(output_formats: list[Any]) -> bool:
    """Whether W&B reads the logger's TensorBoard files."""
    import wandb

    has_files = any(isinstance(output_format, TensorBoardOutputFormat) for output_format in output_formats)
    return has_files and bool(wandb.patched["tensorboard"])


def _write_run_file(folder: Path, run: WandbRun, algo: str, env_id: str | None) -> None:
    info = {
        "id": run.id,
        "name": run.name,
        "entity": run.entity,
        "project": run.project,
        "url": None if run.offline else run.url,
        "algo": algo,
        "env_id": env_id,
        "folder": folder.name,
    }
    write_json(folder / RUN_FILE, info)
