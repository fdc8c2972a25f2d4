"""Starts a training from the weights of another agent, as far as they fit."""

from __future__ import annotations

import io
import os
import pickle
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

from sb3_ext.common.clean_text import say
from sb3_ext.common.usage_error import UsageError
from sb3_ext.runs.agents.checkpoint import find_checkpoints
from sb3_ext.runs.agents.statistics import copy_statistics
from sb3_ext.runs.find_run import find_run
from sb3_ext.runs.folders import is_run
from sb3_ext.runs.registry import LOG_FOLDER

if TYPE_CHECKING:
    import torch as th
    from stable_baselines3.common.base_class import BaseAlgorithm

__all__ = ["find_weights", "init_from"]

_SUFFIXES = (".zip", ".pth")
#: Tensors to name in a message
_SHOWN = 4


def init_from(
    model: BaseAlgorithm,
    source: str | os.PathLike[str],
    log_folder: str | os.PathLike[str] = LOG_FOLDER,
    verbose: int = 1,
) -> Path:
    """
    Take the weights of another agent: each tensor of its policy whose name and shape are the same here. The others, the
    optimizer and all counters stay as they are. From a run folder, also the ``VecNormalize`` statistics, if the
    observations have the same shape.

    :param model: a new model
    :param source: a run (``@best``, its id, its path: the best model is taken, or the last one), a model's ``.zip``, or
        a ``.pth`` with a policy's ``state_dict``. Weights are loaded without running code from the file
    :param log_folder: where runs are
    :param verbose: 1 prints what was taken
    :return: the file
    :raises UsageError: when there is no such file, or nothing in it fits
    """
    path = find_weights(source, log_folder)
    saved, own = _read_weights(path, str(model.device)), model.policy.state_dict()
    taken = {name: tensor for name, tensor in saved.items() if name in own and own[name].shape == tensor.shape}
    left = [_difference(name, tensor, saved.get(name)) for name, tensor in own.items() if name not in taken]
    if not taken:
        raise UsageError(f"init_from: {path} has no tensor that fits this policy: {_listed(left)}.")
    model.policy.load_state_dict({**own, **taken})
    kept = f"; new: {_listed(left)}" if left else ""
    say(f"Weights of {path}: took {len(taken)} of {len(own)} tensors{kept}", verbose)
    statistics = copy_statistics(path, model.get_vec_normalize_env()) if is_run(path.parent) else None
    if statistics is not None:
        say(f"Normalisation statistics of {path}: {statistics}", verbose)
    return path


def find_weights(source: str | os.PathLike[str], log_folder: str | os.PathLike[str] = LOG_FOLDER) -> Path:
    """:return: the file that :func:`init_from` reads"""
    path = Path(source)
    if path.suffix in _SUFFIXES:
        if not path.is_file():
            raise UsageError(f"init_from: {path} does not exist.")
        return path
    folder = find_run(source, log_folder)
    models = [checkpoint.model for checkpoint in find_checkpoints(folder)]
    # RL Zoo's final model has the name of the environment, as the folder with its config
    models = models or [file for file in folder.glob("*.zip") if file.with_suffix("").is_dir()]
    if not models:
        raise UsageError(f"init_from: {folder} has no model. A model's .zip can be given too.")
    return models[-1]


def _read_weights(path: Path, device: str) -> dict[str, th.Tensor]:
    import torch as th

    try:
        data = path.read_bytes()
        if path.suffix == ".zip":
            with zipfile.ZipFile(io.BytesIO(data)) as archive:
                data = archive.read("policy.pth")
        # A pickle could run any code; this reads tensors only
        weights = th.load(io.BytesIO(data), map_location=device, weights_only=True)
    except (zipfile.BadZipFile, KeyError, EOFError, RuntimeError, pickle.UnpicklingError) as error:
        reason = f"{type(error).__name__}: {error}".partition("\n")[0]
        raise UsageError(f"init_from: {path} has no weights of a policy that can be read: {reason}") from None
    if not isinstance(weights, dict) or not all(isinstance(tensor, th.Tensor) for tensor in weights.values()):
        raise UsageError(f"init_from: {path} contains a {type(weights).__name__}; expected a policy's state_dict.")
    return weights


def _difference(name: str, own: th.Tensor, saved: th.Tensor | None) -> str:
    return f"{name} {tuple(own.shape)}" + ("" if saved is None else f" ≠ {tuple(saved.shape)}")


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more
