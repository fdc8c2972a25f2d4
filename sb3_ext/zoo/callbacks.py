"""The callbacks of a training: RL Zoo's, and what the ``ext:`` key asks for."""

import os

from rl_zoo3.callbacks import SaveVecNormalizeCallback
from sb3_contrib.common.maskable.callbacks import MaskableEvalCallback
from stable_baselines3.common.callbacks import BaseCallback, CheckpointCallback, EvalCallback

from sb3_ext.callbacks.evaluation.callback import Evaluation
from sb3_ext.callbacks.metrics.episode_metrics import EpisodeMetrics
from sb3_ext.callbacks.save_normalization import SaveNormalization
from sb3_ext.callbacks.table.log_files import LogFiles
from sb3_ext.callbacks.training_progress import TrainingProgress
from sb3_ext.common.full_disk import tolerate_full_disk
from sb3_ext.runs.files import atomic_write
from sb3_ext.zoo.options import ExtOptions

__all__ = ["build_callbacks", "masked"]


def build_callbacks(stock: list[BaseCallback], options: ExtOptions, verbose: int) -> list[BaseCallback]:
    callbacks: list[BaseCallback] = []
    for callback in stock:
        if isinstance(callback, EvalCallback) and isinstance(callback.callback_on_new_best, SaveVecNormalizeCallback):
            callback.callback_on_new_best = _SaveWhole(1, callback.callback_on_new_best.save_path)
        if isinstance(callback, EvalCallback) and options.evaluation is not None:
            callbacks.append(Evaluation.from_stock(callback, options.evaluation))
        elif not isinstance(callback, CheckpointCallback) or options.checkpoints is None:
            callbacks.append(callback)
    callbacks += [EpisodeMetrics(), TrainingProgress(), SaveNormalization()]
    if options.metrics is not None or options.report is not None:
        callbacks.append(LogFiles())
    return callbacks + [topic.make_callback(verbose=verbose) for topic in options.topics]


class _SaveWhole(SaveVecNormalizeCallback):
    """RL Zoo's callback would leave half a file if it is killed, and end the training if the disk is full."""

    def _on_step(self) -> bool:
        vec_normalize = self.model.get_vec_normalize_env()
        if vec_normalize is not None:
            with tolerate_full_disk(self.save_path), atomic_write(f"{self.save_path}/vecnormalize.pkl") as unfinished:
                vec_normalize.save(str(unfinished))
        return True


def masked(callback: BaseCallback) -> BaseCallback:
    """Replace SB3's evaluation with the one for action masks."""
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
