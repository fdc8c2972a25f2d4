"""The callbacks of a training: RL Zoo's, and what the ``ext:`` key asks for."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from sb3_contrib.common.maskable.callbacks import MaskableEvalCallback
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.callbacks import BaseCallback, CheckpointCallback, EvalCallback
from stable_baselines3.common.vec_env import VecEnv

from sb3_ext.callbacks.evaluation.callback import Evaluation
from sb3_ext.callbacks.metrics.episode_metrics import EpisodeMetrics
from sb3_ext.callbacks.report import is_in_learn
from sb3_ext.callbacks.save_normalization import SaveNormalization
from sb3_ext.callbacks.table.files import LogFiles
from sb3_ext.callbacks.tracking.callback import Tracking
from sb3_ext.callbacks.tracking.options import TrackingOptions
from sb3_ext.callbacks.training_progress import TrainingProgress
from sb3_ext.zoo.options import ExtOptions

__all__ = ["RunContext", "SaveFirst", "close_all", "extended", "finish_tracking", "masked"]


@dataclass(frozen=True)
class RunContext:
    """
    What callbacks have to know of a run.

    :param folder: the run folder
    :param algo: name of the algorithm
    :param env_id: the environment
    :param save_freq: timesteps from one checkpoint to the next, as the command line has it; 0 for none
    :param is_tracked: whether RL Zoo's ``--track`` has opened a run on Weights & Biases
    :param verbose: as the command line has it
    :param make_env: makes environments as for evaluation, in another process, given their number
    """

    folder: str
    algo: str
    env_id: str
    save_freq: int
    is_tracked: bool
    verbose: int
    make_env: Callable[[int], Callable[..., VecEnv]]


class SaveFirst(BaseCallback):
    """
    Saves the final model as soon as a training is complete. RL Zoo does it after ``learn``, when other callbacks have
    waited for an evaluation, recorded a video or written a report.

    :param save: saves a model
    :param former: the training's first callback otherwise, which RL Zoo also tells of the end of trainings that are
        not complete
    """

    def __init__(self, save: Callable[[BaseAlgorithm], None], former: BaseCallback) -> None:
        super().__init__()
        self._save, self._former = save, former

    def _on_step(self) -> bool:
        return True

    def _on_training_end(self) -> None:
        if is_in_learn(self.model):
            self._save(self.model)
        else:
            self._former.on_training_end()


def extended(callbacks: list[BaseCallback], options: ExtOptions, run: RunContext) -> list[BaseCallback]:
    """
    :param callbacks: those of RL Zoo
    :param options: what the ``ext:`` key asks for
    :param run: the run
    :return: those that the training gets. Later ones see what earlier ones do at its end: the report what alerts and
        evaluation found, and tracking the report
    """
    return [
        *_replaced(callbacks, options, run),
        EpisodeMetrics(),
        TrainingProgress(),
        SaveNormalization(),
        *_of_options(options, run),
    ]


def _replaced(callbacks: list[BaseCallback], options: ExtOptions, run: RunContext) -> Iterator[BaseCallback]:
    for callback in callbacks:
        if isinstance(callback, EvalCallback) and options.evaluation is not None:
            make_env = run.make_env(callback.eval_env.num_envs)
            yield Evaluation.from_stock(callback, options.evaluation, make_env)
        elif not isinstance(callback, CheckpointCallback) or options.checkpoints is None:
            yield callback


def _of_options(options: ExtOptions, run: RunContext) -> Iterator[BaseCallback]:
    if options.checkpoints is not None:
        checkpoints = options.checkpoints
        if run.save_freq:
            checkpoints = checkpoints.model_copy(update={"every": run.save_freq})
        yield checkpoints.make_callback(folder=run.folder, make_env=run.make_env(1), verbose=run.verbose)
    if options.metrics is not None:
        yield options.metrics.make_callback()
    if options.alerts is not None:
        yield options.alerts.make_callback(folder=run.folder, verbose=run.verbose)
    if options.table is not None:
        yield options.table.make_callback()
    if options.metrics is not None or options.report is not None:
        yield LogFiles(run.folder)
    if options.report is not None:
        yield options.report.make_callback(folder=run.folder, verbose=run.verbose)
    tracking = options.tracking
    if run.is_tracked and "tracking" not in options.model_fields_set:
        tracking = TrackingOptions()
    if tracking is not None:
        yield tracking.make_callback(
            folder=run.folder, algo=run.algo, env_id=run.env_id, finish=False, verbose=run.verbose
        )


def close_all(callbacks: list[BaseCallback], error: BaseException | None) -> None:
    """
    Let go of what callbacks hold open, whatever ended the training.

    :param callbacks: those of the training
    :param error: what ended it, when it was not complete
    """
    for callback in callbacks:
        close = getattr(callback, "close", None)
        if close is None or (isinstance(callback, Tracking) and error is None):
            continue  # the run on W&B gets the final model too
        try:
            close(error)
        except Exception as failure:
            # One that fails must not keep the others open, nor hide what ended the training
            name = type(callback).__name__
            warnings.warn(f"{name} could not be closed: {type(failure).__name__}: {failure}", stacklevel=2)


def finish_tracking(callbacks: list[BaseCallback]) -> None:
    """
    :param callbacks: those of a training whose final model is saved
    """
    for callback in callbacks:
        if isinstance(callback, Tracking):
            callback.close()


def masked(callback: BaseCallback) -> BaseCallback:
    """
    :param callback: one of RL Zoo's callbacks
    :return: what evaluates with action masks in its place, if it evaluates
    """
    if not isinstance(callback, EvalCallback):
        return callback
    return MaskableEvalCallback(
        callback.eval_env,
        callback_on_new_best=callback.callback_on_new_best,
        n_eval_episodes=callback.n_eval_episodes,
        eval_freq=callback.eval_freq,
        log_path=None if callback.log_path is None else os.path.dirname(callback.log_path),
        best_model_save_path=callback.best_model_save_path,
        deterministic=callback.deterministic,
    )
