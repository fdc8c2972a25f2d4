"""Saves ``VecNormalize`` statistics with every best model and checkpoint."""

import warnings
from pathlib import Path

from stable_baselines3.common.callbacks import EvalCallback
from stable_baselines3.common.vec_env import VecEnv, VecNormalize, unwrap_vec_normalize

from sb3_ext.callbacks.base import RunCallback
from sb3_ext.callbacks.evaluation.callback import Evaluation
from sb3_ext.runs.agents.statistics import save_statistics

__all__ = ["SaveNormalization"]

#: Settings that evaluation must share with training; ``EvalCallback`` copies the statistics only
_SETTINGS = ("norm_obs", "norm_obs_keys", "clip_obs", "epsilon")


class SaveNormalization(RunCallback):
    """
    Saves the statistics of the training environments next to each best model and checkpoint, where
    ``sb3_ext.runs.agents.statistics.load_statistics`` and RL Zoo's commands find them.

    Put it anywhere in the list of callbacks: it saves statistics with each new best model of an ``EvalCallback`` and
    each model of a ``CheckpointCallback``, even if these are inside other callbacks. It can also be the
    ``callback_on_new_best`` of an ``EvalCallback``. Without ``VecNormalize`` it does nothing.
    """

    def _on_training_start(self) -> None:
        vec_normalize = self.model.get_vec_normalize_env()
        if vec_normalize is None:
            return
        for evaluation in self.run.stock.evaluations:
            _check_eval_env(evaluation.eval_env, vec_normalize)
        for saver in self.run.stock.checkpoints:
            saver.save_vecnormalize = True
        self.run.on("new_best", self._save)

    def _on_step(self) -> bool:
        if isinstance(self.parent, EvalCallback):
            self._save(self.parent)
        return True

    def _save(self, evaluation: EvalCallback) -> None:
        folder = evaluation.best_model_save_path
        # Ours saves the statistics of the evaluated model, which may be of an earlier step
        if folder is not None and not isinstance(evaluation, Evaluation):
            save_statistics(self.model, Path(folder, "best_model.zip"))


def _check_eval_env(eval_env: VecEnv, vec_normalize: VecNormalize) -> None:
    eval_normalize = unwrap_vec_normalize(eval_env)
    if eval_normalize is None:
        return  # EvalCallback itself raises an error
    if eval_normalize.training:
        warnings.warn(
            "The VecNormalize of the evaluation environments has training=True: their episodes change the statistics, "
            "so the score of a saved model can't be reproduced. Create it with training=False.",
            stacklevel=2,
        )
    for name in _SETTINGS:
        here, there = getattr(vec_normalize, name), getattr(eval_normalize, name)
        if here != there:
            warnings.warn(
                f"VecNormalize has {name}={here!r} in training and {name}={there!r} in evaluation: the agent is "
                "evaluated on different observations from those it learns from. Use the same value for both.",
                stacklevel=2,
            )
