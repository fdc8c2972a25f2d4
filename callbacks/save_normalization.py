"""Saves ``VecNormalize``'s statistics with every best model and every checkpoint."""

from __future__ import annotations

import os
import warnings

from stable_baselines3.common.callbacks import BaseCallback, CallbackList, CheckpointCallback, EvalCallback
from stable_baselines3.common.vec_env import VecEnv, VecNormalize, unwrap_vec_normalize

from sb3_ext.callbacks.evaluation.callback import Evaluation
from sb3_ext.callbacks.nested import all_of
from sb3_ext.runs.agents.statistics import save_statistics

__all__ = ["SaveNormalization"]

#: Settings that evaluation must share with training; ``EvalCallback`` copies the statistics only
_SETTINGS = ("norm_obs", "norm_obs_keys", "clip_obs", "epsilon")


class SaveNormalization(BaseCallback):
    """
    Saves the statistics of the training environments beside each best model and each checkpoint, where
    ``sb3_ext.runs.agents.statistics.load_statistics`` and RL Zoo's commands find them.

    Add it anywhere among the callbacks of a training: it finds each ``EvalCallback`` and ``CheckpointCallback``, also
    inside other callbacks, and keeps what they call already. It can also be an ``EvalCallback``'s
    ``callback_on_new_best``. Without ``VecNormalize`` it does nothing.
    """

    def _on_training_start(self) -> None:
        vec_normalize = self.model.get_vec_normalize_env()
        if vec_normalize is None:
            return
        for callback in list(all_of(self.locals["callback"])):
            if isinstance(callback, CheckpointCallback):
                callback.save_vecnormalize = True
            elif isinstance(callback, EvalCallback):
                _check_eval_env(callback.eval_env, vec_normalize)
                # Ours saves the statistics of the model that it evaluated, which may be of an earlier step
                if not isinstance(callback, Evaluation):
                    self._extend_new_best(callback)

    def _on_step(self) -> bool:
        if isinstance(self.parent, EvalCallback) and self.parent.best_model_save_path is not None:
            save_statistics(self.model, os.path.join(self.parent.best_model_save_path, "best_model.zip"))
        return True

    def _extend_new_best(self, callback: EvalCallback) -> None:
        present = callback.callback_on_new_best
        if any(isinstance(called, SaveNormalization) for called in all_of(present)):
            return  # also when ``learn`` is called again with the same callbacks
        save = SaveNormalization()
        # First, so that an error in the other can't separate a model from its statistics
        joined = CallbackList([save] if present is None else [save, present])
        # Not init_callback(), which would initialise the user's callback a second time
        joined.model = save.model = self.model
        joined.parent = save.parent = callback
        callback.callback_on_new_best = joined


def _check_eval_env(eval_env: VecEnv, vec_normalize: VecNormalize) -> None:
    """``EvalCallback`` copies the statistics to the evaluation environments, but not the settings."""
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
                "evaluated on other observations than it learns from. Use the same value for both.",
                stacklevel=2,
            )
