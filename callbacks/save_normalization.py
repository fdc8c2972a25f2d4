"""Saves ``VecNormalize``'s statistics with every best model and every checkpoint."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable

from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.callbacks import (
    BaseCallback,
    CallbackList,
    CheckpointCallback,
    EvalCallback,
    EventCallback,
)
from stable_baselines3.common.vec_env import VecEnv, VecNormalize, unwrap_vec_normalize

from sb3_ext.callbacks.evaluation.callback import Evaluation
from sb3_ext.runs.agents.statistics import save_statistics

__all__ = ["SaveNormalization"]

#: What evaluation must do as training does; the statistics themselves are copied by ``EvalCallback``
_SETTINGS = ("norm_obs", "norm_obs_keys", "clip_obs", "epsilon")


class SaveNormalization(BaseCallback):
    """
    Saves the statistics of the training environments beside each best model and each checkpoint, where
    ``sb3_ext.runs.agents.statistics.load_statistics`` and RL Zoo's commands find them.

    It goes into the list of callbacks of a training, at any place: each ``EvalCallback`` and ``CheckpointCallback`` of
    that list is then followed by the saving of statistics, also inside other callbacks. What they call already is kept.
    It can be an ``EvalCallback``'s ``callback_on_new_best`` as well. Without ``VecNormalize`` it does nothing.
    """

    def _on_training_start(self) -> None:
        vec_normalize = self.model.get_vec_normalize_env()
        if vec_normalize is not None:
            self._extend(self.locals["callback"], vec_normalize)

    def _on_step(self) -> bool:
        if isinstance(self.parent, EvalCallback):
            _save(self.model, _best_model(self.parent))
        return True

    def _extend(self, callback: BaseCallback, vec_normalize: VecNormalize) -> BaseCallback:
        """
        :param callback: a callback of the training, and all that it calls
        :return: what to call in its place
        """
        if isinstance(callback, CallbackList) and not _saves_already(callback):
            # A new list: the old one is being iterated over
            callback.callbacks = [self._extend(child, vec_normalize) for child in callback.callbacks]
        if isinstance(callback, EventCallback) and callback.callback is not None:
            callback.callback = self._extend(callback.callback, vec_normalize)
        if isinstance(callback, EvalCallback):
            _check_eval_env(callback.eval_env, vec_normalize)
            self._extend_new_best(callback, vec_normalize)
        if isinstance(callback, CheckpointCallback):
            return self._joined(callback, _SaveBeside(lambda: _checkpoint(callback)))
        return callback

    def _extend_new_best(self, callback: EvalCallback, vec_normalize: VecNormalize) -> None:
        if isinstance(callback, Evaluation):
            return  # it saves them itself: those of the model that it evaluated, which may be of an earlier step
        present = callback.callback_on_new_best
        if isinstance(present, SaveNormalization) or _saves_already(present):
            return
        save = _SaveBeside(lambda: _best_model(callback))
        # First, so that an error in the other doesn't part a model from its statistics
        others = [] if present is None else [self._extend(present, vec_normalize)]
        callback.callback_on_new_best = self._joined(save, *others)

    def _joined(self, *callbacks: BaseCallback) -> CallbackList:
        joined = CallbackList(list(callbacks))
        # Not init_callback(), which would initialise the user's callback a second time
        for callback in (joined, *callbacks):
            callback.model = self.model
        return joined


class _SaveBeside(BaseCallback):
    """
    :param saved_model: gives the model file that was written just now, if any
    """

    def __init__(self, saved_model: Callable[[], str | None]) -> None:
        super().__init__()
        self._saved_model = saved_model

    def _on_step(self) -> bool:
        _save(self.model, self._saved_model())
        return True


def _save(model: BaseAlgorithm, model_path: str | None) -> None:
    if model_path is not None:
        save_statistics(model, model_path)


def _best_model(callback: EvalCallback) -> str | None:
    folder = callback.best_model_save_path
    return None if folder is None else os.path.join(folder, "best_model.zip")


def _checkpoint(callback: CheckpointCallback) -> str | None:
    return callback._checkpoint_path(extension="zip") if callback.n_calls % callback.save_freq == 0 else None


def _saves_already(callback: BaseCallback | None) -> bool:
    """``learn`` may be called several times with the same callbacks."""
    return isinstance(callback, CallbackList) and any(isinstance(child, _SaveBeside) for child in callback.callbacks)


def _check_eval_env(eval_env: VecEnv, vec_normalize: VecNormalize) -> None:
    """What ``EvalCallback`` doesn't copy from training to evaluation must be the same already."""
    of_eval = unwrap_vec_normalize(eval_env)
    if of_eval is None:
        return  # EvalCallback itself refuses that
    if of_eval.training:
        warnings.warn(
            "The VecNormalize of the evaluation environments has training=True: their episodes change the statistics, "
            "so the score of a saved model can't be had again. Make it with training=False.",
            stacklevel=2,
        )
    for name in _SETTINGS:
        here, there = getattr(vec_normalize, name), getattr(of_eval, name)
        if here != there:
            warnings.warn(
                f"VecNormalize has {name}={here!r} in training and {name}={there!r} in evaluation: the agent is "
                "evaluated on other observations than it learns from. Give both the same.",
                stacklevel=2,
            )
