"""``VecNormalize`` statistics, saved beside the model they belong to. The only module that reads and writes them.

A model learns from observations that are normalised with the statistics of that moment. With statistics from the end of
training it sees other numbers, and its score changes.
"""

from __future__ import annotations

import os
import pickle
import re
from pathlib import Path
from typing import TYPE_CHECKING

from sb3_ext.common.model_file import ModelPath, read_model_file
from sb3_ext.runs.files import atomic_write

if TYPE_CHECKING:
    from stable_baselines3.common.base_class import BaseAlgorithm
    from stable_baselines3.common.vec_env import VecEnv, VecNormalize

__all__ = ["copy_statistics", "load_statistics", "matching_statistics", "save_statistics", "statistics_path"]

_CHECKPOINT = re.compile(r"(?P<prefix>.+)_(?P<steps>\d+)_steps")
_SETTINGS = ("obs_rms", "ret_rms", "norm_obs", "norm_obs_keys", "norm_reward", "clip_obs", "clip_reward", "epsilon")


def statistics_path(model_path: ModelPath) -> Path:
    """
    Where the statistics of a model belong, whether they exist or not. The names are those of SB3's
    ``CheckpointCallback`` for checkpoints, and of RL Zoo for the final model of a run.
    """
    model = Path(os.fspath(model_path).removesuffix(".zip"))
    checkpoint = _CHECKPOINT.fullmatch(model.name)
    if checkpoint is not None:
        return model.with_name(f"{checkpoint['prefix']}_vecnormalize_{checkpoint['steps']}_steps.pkl")
    if (model / "config.yml").is_file():
        return model / "vecnormalize.pkl"
    return model.with_name(f"{model.name}_vecnormalize.pkl")


def save_statistics(model: BaseAlgorithm, model_path: ModelPath) -> Path | None:
    """Save the statistics of the training environments; returns ``None`` when these are not normalised."""
    vec_normalize = model.get_vec_normalize_env()
    if vec_normalize is None:
        return None
    path = statistics_path(model_path)
    with atomic_write(path) as unfinished:
        vec_normalize.save(str(unfinished))
        with unfinished.open("ab") as file:
            # After the object that VecNormalize.load() reads: which model this belongs to
            pickle.dump({"num_timesteps": model.num_timesteps}, file)
    return path


def matching_statistics(model_path: ModelPath) -> Path:
    """The file with a model's statistics; raises the errors of :func:`load_statistics`."""
    _read(model_path)
    return statistics_path(model_path)


def load_statistics(
    model_path: ModelPath, vec_env: VecEnv, *, training: bool = False, norm_reward: bool | None = None
) -> VecEnv:
    """
    Normalise observations as they were normalised when the model was saved.

    :param model_path: a saved model, with or without ``.zip``
    :param vec_env: environments. If they are in a ``VecNormalize``, it gets the statistics; otherwise they get one
    :param training: keep updating the statistics
    :param norm_reward: normalise rewards as in training; by default only with ``training=True``
    :return: the normalised environments
    :raises FileNotFoundError: when the model has no statistics
    :raises ValueError: when the statistics belong to another model
    """
    from stable_baselines3.common.vec_env import unwrap_vec_normalize  # not above: reports do without torch

    saved = _read(model_path)
    vec_normalize = unwrap_vec_normalize(vec_env)
    if vec_normalize is None:
        saved.set_venv(vec_env)
        vec_env = vec_normalize = saved
    else:
        # Its place among the wrappers, before or after frames are stacked, stays
        for name in _SETTINGS:
            if hasattr(saved, name):
                setattr(vec_normalize, name, getattr(saved, name))
    vec_normalize.training = training
    vec_normalize.norm_reward = saved.norm_reward and (training if norm_reward is None else norm_reward)
    return vec_env


def copy_statistics(model_path: ModelPath, vec_normalize: VecNormalize | None) -> str | None:
    """
    Continue with the statistics of a model, if both normalise observations of the same shape. Settings stay.

    :return: what was done, in a few words; ``None`` when neither normalises
    """
    has_statistics = statistics_path(model_path).is_file()
    if vec_normalize is None:
        return "not taken, because this training does not normalise (normalize: true)" if has_statistics else None
    if not has_statistics:
        return "there are none, but this training normalises: the weights were trained on other numbers"
    saved = _read(model_path)
    if not (saved.norm_obs and vec_normalize.norm_obs):
        return "not taken, because only one of both normalises observations"
    if _shapes(saved) != _shapes(vec_normalize):
        return "not taken, because the observations have other shapes"
    vec_normalize.obs_rms, vec_normalize.ret_rms = saved.obs_rms, saved.ret_rms
    return "taken"


def _shapes(vec_normalize: VecNormalize) -> dict[str, tuple[int, ...]]:
    statistics = vec_normalize.obs_rms
    parts = statistics if isinstance(statistics, dict) else {"": statistics}
    return {name: part.mean.shape for name, part in parts.items()}


def _read(model_path: ModelPath) -> VecNormalize:
    path = statistics_path(model_path)
    if not path.is_file():
        raise FileNotFoundError(
            f"There are no normalisation statistics for {os.fspath(model_path)}: expected {path}. The callback "
            "sb3_ext.callbacks.SaveNormalization saves them with every best model and checkpoint."
        )
    with path.open("rb") as file:
        statistics: VecNormalize = pickle.load(file)
        try:
            saved_at = pickle.load(file)["num_timesteps"]
        except EOFError:
            return statistics  # written by SB3 or RL Zoo
    trained = read_model_file(model_path).num_timesteps
    if saved_at != trained:
        raise ValueError(
            f"{path} was saved after {saved_at} steps, {os.fspath(model_path)} after {trained}: these statistics "
            "belong to another model with the same name."
        )
    return statistics
