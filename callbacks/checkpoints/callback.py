"""Saves the best model, the last one and one every n steps, each with what there is to know about it."""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch as th
from stable_baselines3.common.callbacks import (
    BaseCallback,
    CallbackList,
    CheckpointCallback,
    EvalCallback,
)

from sb3_ext.callbacks.checkpoints.options import CheckpointsOptions
from sb3_ext.callbacks.checkpoints.recorder import CheckpointRecorder, MakeEnv
from sb3_ext.callbacks.nested import all_of
from sb3_ext.common.model_file import read_model_file
from sb3_ext.common.options import read_keywords
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
from sb3_ext.runs.rows import Row, rows_of, scalars

__all__ = ["Checkpoints", "CheckpointsOptions"]

#: Rows that are remembered, for models that were evaluated while training went on
_ROWS = 64


class Checkpoints(BaseCallback):
    """
    Saves checkpoints with their normalisation statistics, their metrics, an episode step by step and a video; see
    ``sb3_ext.runs.agents.checkpoint`` for the names. An ``EvalCallback`` of the same training saves the best model.
    Episodes are played in another process of low priority, from the files: training doesn't wait for them.

    :param folder: the run folder; by default the one that an ``EvalCallback`` or ``CheckpointCallback`` of the training
        saves to
    :param make_env: makes an environment to play in, as the model knows it, or the id of one; its parameter
        ``render_mode`` is given when it has one. By default, the training's environment is made again
    :param verbose: 2 tells what was recorded
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
        self._recorder = CheckpointRecorder(self.options, make_env, verbose)
        self._deterministic = self.options.deterministic
        self._recent: deque[Row] = deque(maxlen=_ROWS)
        self._next = 0
        self._is_training = False

    def _on_training_start(self) -> None:
        evaluations = list(_find(EvalCallback, self.locals["callback"]))
        self.folder = self._find_folder(evaluations)
        remove_unfinished(self.folder, self.folder / "checkpoints", self.folder / "videos")
        self._recent.clear()
        rows_of(self.logger).add_judge(self._before_row)
        self._set_next()
        if self._deterministic is None and evaluations:
            self._deterministic = evaluations[0].deterministic
        self._recorder.prepare(self.training_env)
        if self.options.best:
            for evaluation in evaluations:
                _call_on_new_best(evaluation, self)
        self._is_training = True

    def _on_step(self) -> bool:
        if self._next and self.num_timesteps >= self._next:
            self._save_step()
            self._set_next()
        return True

    def _on_rollout_end(self) -> None:
        self._recorder.tell_news()

    def _on_training_end(self) -> None:
        self._is_training = False
        if self.options.last and self._is_worth_saving():
            self._record(self._save_last())
        self.close()

    def close(self, error: BaseException | None = None) -> None:
        """
        Wait for what is being recorded; when training was broken off, don't, but save the last model.

        :param error: what broke it off
        """
        if self._is_training:
            self._is_training = False
            try:
                if self.options.last and self._is_worth_saving():
                    self._save_last()
            except Exception as failure:
                warnings.warn(f"The last model could not be saved: {type(failure).__name__}: {failure}", stacklevel=2)
        elif error is None and self._recorder.is_busy:
            self._recorder.wait()
        self._recorder.stop()

    def _is_worth_saving(self) -> bool:
        is_finite = all(bool(th.isfinite(parameter).all()) for parameter in self.model.policy.parameters())
        if not is_finite:
            print("The last model is not saved: its parameters are not finite.")
        return is_finite

    def on_new_best(self, evaluation: EvalCallback) -> None:
        """
        Describe the model that was just saved as the best one.

        :param evaluation: has found it
        """
        assert self.folder is not None
        if evaluation.best_model_save_path is None:
            checkpoint = Checkpoint(self.folder, BEST)
            save_model(self.model, checkpoint.model)
        else:
            checkpoint = Checkpoint(Path(evaluation.best_model_save_path), BEST)
        # Not the steps of the model in training: that one may have gone on while this one was evaluated
        step = read_model_file(checkpoint.model).num_timesteps
        if step == self.model.num_timesteps:
            save_statistics(self.model, checkpoint.model)
        checkpoint.table.unlink(missing_ok=True)
        write_record(checkpoint, step, type(self.model).__name__, self._metrics(step, with_evaluation=True))
        self._record(checkpoint, step)

    def _save_step(self) -> None:
        assert self.folder is not None
        checkpoint, metrics = Checkpoint(self.folder, step_name(self.num_timesteps)), self._metrics(self.num_timesteps)
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

    def _before_row(self, step: int, values: Mapping[str, Any]) -> dict[str, Any]:
        self._remember_row()
        return {}

    def _remember_row(self) -> None:
        """The one that was written last, with what other judges added to it."""
        latest = rows_of(self.logger).latest
        if not self._recent or self._recent[-1] is not latest:
            self._recent.append(latest)

    def _metrics(self, step: int, with_evaluation: bool = False) -> dict[str, Metric]:
        """
        :param step: of the model
        :param with_evaluation: whether the evaluation that was logged last is of this model
        :return: the latest value of each metric that was known then
        """
        self._remember_row()
        pending = scalars(self.logger.name_to_value)
        metrics = {}
        for row in self._recent:
            if row.step <= step:
                metrics.update(_known(row.values, row.step))
        if step == self.model.num_timesteps:
            metrics.update(_known(pending, step))
        if with_evaluation:
            latest = _known({**self._recent[-1].values, **pending}, step)
            evaluation = {name: metric for name, metric in latest.items() if name.startswith("eval/")}
            metrics.update({name: metric for name, metric in evaluation.items() if metric.step == step})
        return dict(sorted(metrics.items()))

    def _find_folder(self, evaluations: list[EvalCallback]) -> Path:
        if self.folder is not None:
            return self.folder
        savers = _find(CheckpointCallback, self.locals["callback"])
        folders = [*(callback.best_model_save_path for callback in evaluations), *(saver.save_path for saver in savers)]
        for folder in folders:
            if folder is not None:
                return Path(folder)
        raise ValueError(
            "Checkpoints doesn't know where to save: give it folder=…, or the training an EvalCallback with "
            "best_model_save_path=…."
        )


class _NewBest(BaseCallback):
    """
    :param owner: describes the best model
    :param evaluation: finds it
    """

    def __init__(self, owner: Checkpoints, evaluation: EvalCallback) -> None:
        super().__init__()
        self.owner = owner
        self._evaluation = evaluation

    def _on_step(self) -> bool:
        self.owner.on_new_best(self._evaluation)
        return True


def _call_on_new_best(evaluation: EvalCallback, owner: Checkpoints) -> None:
    present = evaluation.callback_on_new_best
    if not isinstance(present, CallbackList):
        present = CallbackList([] if present is None else [present])
        present.model, present.parent = owner.model, evaluation
        evaluation.callback_on_new_best = present
    if not any(child.owner is owner for child in _find(_NewBest, present)):
        called = _NewBest(owner, evaluation)
        called.model = owner.model
        # Last: the model's statistics are saved by then
        present.callbacks = [*present.callbacks, called]


def _find(kind: type[Any], callback: BaseCallback | None) -> Iterator[Any]:
    return (found for found in all_of(callback) if isinstance(found, kind))


def _known(values: Mapping[str, float], step: int) -> dict[str, Metric]:
    """An evaluation that went on beside training is of an earlier step than the row it was logged in."""
    evaluated = int(values.get("eval/step", step))
    return {name: Metric(value, evaluated if name.startswith("eval/") else step) for name, value in values.items()}
