"""Saves the best model, the last one and one every n steps, each with its metrics and an episode."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch as th
from stable_baselines3.common.callbacks import EvalCallback

from sb3_ext.callbacks.base import RunCallback
from sb3_ext.callbacks.checkpoints.options import CheckpointsOptions
from sb3_ext.callbacks.checkpoints.recorder import CheckpointRecorder, MakeEnv
from sb3_ext.common.full_disk import tolerate_full_disk
from sb3_ext.common.model_file import read_model_file
from sb3_ext.common.options import read_keywords
from sb3_ext.runs.agents.bundle import Bundle
from sb3_ext.runs.agents.checkpoint import (
    BEST,
    LAST,
    Checkpoint,
    Metric,
    copy_checkpoint,
    prune,
    save_checkpoint,
    save_model,
    step_name,
    write_record,
)
from sb3_ext.runs.agents.statistics import save_statistics
from sb3_ext.runs.files import remove_unfinished
from sb3_ext.runs.resume import StateKeeper, next_rollout_ends
from sb3_ext.runs.rows import scalars
from sb3_ext.runs.run import Phase

__all__ = ["Checkpoints", "CheckpointsOptions"]


class Checkpoints(RunCallback):
    """
    Saves checkpoints with their normalisation statistics, metrics, an episode step by step and a video; see
    ``sb3_ext.runs.agents.checkpoint`` for the file names. The training's ``EvalCallback`` saves the best model.
    Episodes are played from the files in a low-priority process, so training doesn't wait for them.

    :param folder: the run folder; default: where the training's ``EvalCallback``, ``CheckpointCallback`` or logger
        saves
    :param make_env: makes an environment to play in, or its id; gets ``render_mode`` if it has such a parameter.
        Default: recreate the training environment
    :param verbose: 2 prints what was recorded
    :param options: which models to keep
    :param fields: fields of :class:`CheckpointsOptions`, instead of ``options``
    """

    def __init__(
        self,
        folder: str | None = None,
        make_env: MakeEnv | str | None = None,
        verbose: int = 0,
        *,
        options: CheckpointsOptions | None = None,
        **fields: Any,
    ) -> None:
        super().__init__(verbose)
        self.options = read_keywords(CheckpointsOptions, options, fields, self)
        self.folder = None if folder is None else Path(folder)
        self._recorder = CheckpointRecorder(self.options, make_env, self.say)
        self._deterministic = self.options.deterministic
        self._next = 0
        self._states: StateKeeper | None = None
        #: Of the start of this rollout, if a checkpoint will be saved in it
        self._state: Bundle | None = None

    def _on_training_start(self) -> None:
        evaluations = self.run.stock.evaluations
        self.folder = self._find_folder()
        remove_unfinished(self.folder)
        self._set_next()
        if self._deterministic is None and evaluations:
            self._deterministic = evaluations[0].deterministic
        make_env = self.run.make_env
        self._recorder.prepare(self.training_env, None if make_env is None else make_env(1))
        if self.options.best:
            self.run.on("new_best", self.on_new_best)
        self.run.keep(self.folder)
        if self.options.resume_seconds is not None:
            self._states = StateKeeper(self.run, self.folder, self.options.resume_seconds)
        self.run.at_end(Phase.CHECKPOINT, self._finish)

    def _on_rollout_start(self) -> None:
        if self._states is not None:
            with tolerate_full_disk(self.folder):
                self._states.at_rollout_start()
            is_due = bool(self._next) and next_rollout_ends(self.model) >= self._next
            self._state = self._states.capture() if is_due else None

    def _on_step(self) -> bool:
        if self._next and self.num_timesteps >= self._next:
            with tolerate_full_disk(self.folder):
                self._save_step()
            self._set_next()
        return True

    def _on_rollout_end(self) -> None:
        self._recorder.tell_news()

    def _finish(self) -> None:
        """Save the last model. If training is complete, wait for recordings."""
        is_complete = self.run.error is None
        try:
            if self._states is not None:
                # Not if a callback ended the training in the middle of a rollout
                if is_complete and self.model.num_timesteps >= self.model._total_timesteps:
                    self._states.capture(is_at_end=True)
                self._states.write()
            if self.options.last and self._is_worth_saving():
                checkpoint = self._save_last()
                if is_complete:
                    self._record(checkpoint)
            if is_complete and self._recorder.is_busy:
                self._recorder.wait()
        finally:
            self._recorder.stop()

    def _is_worth_saving(self) -> bool:
        is_finite = all(bool(th.isfinite(parameter).all()) for parameter in self.model.policy.parameters())
        if not is_finite:
            self.run.say("The last model is not saved: its parameters are not finite.")
        return is_finite

    def on_new_best(self, evaluation: EvalCallback) -> None:
        """Write the record of a new best model."""
        assert self.folder is not None
        if evaluation.best_model_save_path is None:
            checkpoint = Checkpoint(self.folder, BEST)
            save_model(self.model, checkpoint.model)
        else:
            checkpoint = Checkpoint(Path(evaluation.best_model_save_path), BEST)
        # Not the current steps, because training may have continued during the evaluation
        step = read_model_file(checkpoint.model).num_timesteps
        if step == self.model.num_timesteps:
            save_statistics(self.model, checkpoint.model)
        checkpoint.table.unlink(missing_ok=True)
        write_record(checkpoint, step, type(self.model).__name__, self._metrics(step, with_evaluation=True))
        self._record(checkpoint, step)

    def _save_step(self) -> None:
        assert self.folder is not None
        checkpoint, metrics = Checkpoint(self.folder, step_name(self.num_timesteps)), self._metrics(self.num_timesteps)
        if self._state is not None:
            replace(self._state, model=None).write(checkpoint.state)
        save_checkpoint(self.model, checkpoint, metrics)
        if self.options.last:
            copy_checkpoint(checkpoint, Checkpoint(self.folder, LAST), metrics, type(self.model).__name__)
        if self.options.keep is not None:
            prune(self.folder, self.options.keep)
        self._record(checkpoint)

    def _save_last(self) -> Checkpoint:
        assert self.folder is not None
        checkpoint = Checkpoint(self.folder, LAST)
        checkpoint.table.unlink(missing_ok=True)
        save_checkpoint(self.model, checkpoint, self._metrics(self.model.num_timesteps))
        return checkpoint

    def _record(self, checkpoint: Checkpoint, step: int | None = None) -> None:
        step = self.model.num_timesteps if step is None else step
        self._recorder.record(checkpoint, step, type(self.model), self._deterministic is not False)

    def _set_next(self) -> None:
        every = self.options.every
        self._next = 0 if every is None else (self.num_timesteps // every + 1) * every

    def _metrics(self, step: int, with_evaluation: bool = False) -> dict[str, Metric]:
        """
        The latest value of each metric at this step. ``with_evaluation``: the last logged evaluation is of this model.
        """
        rows, pending = self.run.rows, scalars(self.logger.name_to_value)
        metrics = {}
        for row in rows.recent:
            if row.step <= step:
                metrics.update(_known(row.values, row.step))
        if step == self.model.num_timesteps:
            metrics.update(_known(pending, step))
        if with_evaluation:
            latest = _known({**rows.latest.values, **pending}, step)
            evaluation = {name: metric for name, metric in latest.items() if name.startswith("eval/")}
            metrics.update({name: metric for name, metric in evaluation.items() if metric.step == step})
        return dict(sorted(metrics.items()))

    def _find_folder(self) -> Path:
        stock = self.run.stock
        saved_to = [Path(saver.save_path) for saver in stock.checkpoints]
        for folder in (self.folder, stock.best_model_folder, *saved_to, self.run.folder):
            if folder is not None:
                return folder
        raise ValueError(
            "Checkpoints doesn't know where to save: pass folder=…, or use an EvalCallback with best_model_save_path=…."
        )


def _known(values: Mapping[str, float], step: int) -> dict[str, Metric]:
    """An evaluation in a separate process is of an earlier step than its row."""
    evaluated = int(values.get("eval/step", step))
    return {name: Metric(value, evaluated if name.startswith("eval/") else step) for name, value in values.items()}
