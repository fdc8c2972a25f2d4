"""The callbacks of a training: RL Zoo's, and what the ``ext:`` key asks for."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from sb3_contrib.common.maskable.callbacks import MaskableEvalCallback
from stable_baselines3.common.callbacks import BaseCallback, CheckpointCallback, EvalCallback
from stable_baselines3.common.vec_env import VecEnv

from sb3_ext.callbacks.evaluation.callback import Evaluation
from sb3_ext.callbacks.metrics.episode_metrics import EpisodeMetrics
from sb3_ext.callbacks.save_normalization import SaveNormalization
from sb3_ext.callbacks.table.files import LogFiles
from sb3_ext.callbacks.tracking.options import TrackingOptions
from sb3_ext.callbacks.training_progress import TrainingProgress
from sb3_ext.zoo.options import ExtOptions

__all__ = ["RunContext", "extended", "masked"]


@dataclass(frozen=True)
class RunContext:
    """
    What callbacks have to know of a run.

    :param folder: the run folder
    :param algo: name of the algorithm
    :param env_id: the environment
    :param is_tracked: whether RL Zoo's ``--track`` has opened a run on Weights & Biases
    :param verbose: as the command line has it
    :param make_env: makes environments as for evaluation, in another process, given their number
    """

    folder: str
    algo: str
    env_id: str
    is_tracked: bool
    verbose: int
    make_env: Callable[[int], Callable[..., VecEnv]]


def extended(callbacks: list[BaseCallback], options: ExtOptions, run: RunContext) -> list[BaseCallback]:
    """
    :param callbacks: those of RL Zoo
    :param options: what the ``ext:`` key asks for
    :param run: the run
    :return: those that the training gets
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
        yield options.checkpoints.make_callback(folder=run.folder, make_env=run.make_env(1), verbose=run.verbose)
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
        yield tracking.make_callback(folder=run.folder, algo=run.algo, env_id=run.env_id, verbose=run.verbose)


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
