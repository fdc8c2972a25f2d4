"""Normalisation statistics travel with the model they belong to.

A model saved in the middle of training has learned to see observations as ``VecNormalize`` showed them then. With the
statistics of the end of training it sees something else, and plays something else.
"""

from __future__ import annotations

import os
import pickle
import re
from pathlib import Path

from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.vec_env import VecEnv, VecNormalize

from sb3_ext.common.model_file import ModelPath, read_model_file
from sb3_ext.runs.files import replacing

__all__ = ["load_statistics", "matching_statistics", "save_statistics", "statistics_path"]

_CHECKPOINT = re.compile(r"(?P<prefix>.+)_(?P<steps>\d+)_steps")


def statistics_path(model_path: ModelPath) -> Path:
    """
    :param model_path: a saved model, with or without ``.zip``
    :return: where its statistics belong, whether there are any or not. Checkpoints have the name that SB3's
        ``CheckpointCallback`` gives them, and the final model of a run the one that RL Zoo does
    """
    model = Path(os.fspath(model_path).removesuffix(".zip"))
    checkpoint = _CHECKPOINT.fullmatch(model.name)
    if checkpoint is not None:
        return model.with_name(f"{checkpoint['prefix']}_vecnormalize_{checkpoint['steps']}_steps.pkl")
    if (model / "config.yml").is_file():
        return model / "vecnormalize.pkl"
    return model.with_name(f"{model.name}_vecnormalize.pkl")


def save_statistics(model: BaseAlgorithm, model_path: ModelPath) -> Path | None:
    """
    Save the statistics of a model's environment beside it. What is there already is replaced in one step, so that a run
    that is killed leaves no half of a file.

    :param model: the model; its environment is that of training
    :param model_path: where it was saved just now
    :return: the file; ``None`` when nothing is normalised
    """
    vec_normalize = model.get_vec_normalize_env()
    if vec_normalize is None:
        return None
    path = statistics_path(model_path)
    with replacing(path) as unfinished:
        vec_normalize.save(str(unfinished))
        with unfinished.open("ab") as file:
            # After the object that VecNormalize.load() reads: which model this belongs to
            pickle.dump({"num_timesteps": model.num_timesteps}, file)
    return path


def matching_statistics(model_path: ModelPath) -> Path:
    """
    :param model_path: a saved model, with or without ``.zip``
    :return: the file with its statistics
    :raises FileNotFoundError: when there is none
    :raises ValueError: when the file belongs to another model that was saved under the same name
    """
    path = statistics_path(model_path)
    if not path.is_file():
        raise FileNotFoundError(
            f"There are no normalisation statistics for {os.fspath(model_path)}: they would be in {path}. The callback "
            "sb3_ext.callbacks.SaveNormalization saves them with every best model and checkpoint."
        )
    saved_at = _steps_of_statistics(path)
    trained = read_model_file(model_path).num_timesteps
    if saved_at is not None and saved_at != trained:
        raise ValueError(
            f"{path} was saved after {saved_at} steps, {os.fspath(model_path)} after {trained}: these statistics "
            "belong to another model, which had the same name."
        )
    return path


def load_statistics(model_path: ModelPath, vec_env: VecEnv, *, training: bool = False) -> VecNormalize:
    """
    :param model_path: a saved model, with or without ``.zip``
    :param vec_env: environments that are not normalised yet
    :param training: go on updating the statistics, and normalise rewards where training did; otherwise, observations
        are normalised as they were when the model was saved, and rewards are raw
    :return: the environments, normalised as the model wants it
    :raises FileNotFoundError: when the model has no statistics
    :raises ValueError: when the statistics belong to another model
    """
    vec_normalize = VecNormalize.load(str(matching_statistics(model_path)), vec_env)
    vec_normalize.training = training
    if not training:
        vec_normalize.norm_reward = False
    return vec_normalize


def _steps_of_statistics(path: Path) -> int | None:
    """``None`` for a file that SB3 or RL Zoo wrote."""
    with path.open("rb") as file:
        pickle.load(file)
        try:
            return pickle.load(file)["num_timesteps"]
        except EOFError:
            return None
