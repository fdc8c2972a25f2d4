"""SB3's model file (``.zip``): what it says about a model, without unpickling anything and without importing torch."""

from __future__ import annotations

import io
import json
import os
import zipfile
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from stable_baselines3.common.base_class import BaseAlgorithm

__all__ = ["ModelFile", "ModelPath", "callback_state", "check_saved_by", "read_model_file", "zip_path"]

ModelPath = str | os.PathLike[str]

#: Attributes take some kilobytes. A file whose attributes unpack to more than this was not written by SB3.
_MAX_ATTRIBUTES = 50_000_000
#: Saved attributes that tell one algorithm from the others.
_MARKS = {
    "clip_range": "PPO",
    "baseline": "REINFORCE",
    "replay_buffer_class": "an off-policy algorithm",
    "cg_damping": "TRPO",
    "delta_std": "ARS",
}


class ModelFile(NamedTuple):
    #: Of the saved attributes
    names: frozenset[str]
    num_timesteps: int


def zip_path(model: ModelPath) -> Path:
    """:return: the model's file, for a path with or without ``.zip``"""
    return Path(f"{os.fspath(model).removesuffix('.zip')}.zip")


def read_model_file(model: ModelPath | io.IOBase) -> ModelFile:
    """
    :param model: a saved model, with or without ``.zip``, or an open file, which stays at its position
    :raises FileNotFoundError: when there is no such file
    :raises ValueError: when it was not written by SB3, or only in part
    """
    file = model if isinstance(model, io.IOBase) else _existing(model).open("rb")
    position = file.tell()
    try:
        with zipfile.ZipFile(file) as archive:
            if archive.getinfo("data").file_size > _MAX_ATTRIBUTES:
                raise ValueError(f"its attributes take more than {_MAX_ATTRIBUTES:,} bytes")
            attributes = json.loads(archive.read("data"))
        return ModelFile(frozenset(attributes), int(attributes["num_timesteps"]))
    except (zipfile.BadZipFile, KeyError, TypeError, ValueError, OverflowError, RecursionError) as error:
        raise ValueError(f"{model} is not a model that SB3 saved: {error}") from error
    finally:
        if file is model:
            file.seek(position)
        else:
            file.close()


def check_saved_by(algorithm: str, parameters: Collection[str], model: ModelPath | io.IOBase) -> None:
    """
    Raise an error when another algorithm saved the model: SB3's ``load`` takes any model and fails later, or never.

    :param parameters: the parameters of the algorithm's constructor
    """
    saved = read_model_file(model).names
    for mark, owner in sorted(_MARKS.items(), key=lambda item: item[0] not in saved):
        if (mark in saved) != (mark in parameters):
            was, has = ("was", "has") if mark in saved else ("was not", "has no")
            raise ValueError(f"{model} {was} saved by {owner} (it {has} {mark!r}): {algorithm} can't load it.")


def callback_state(model: BaseAlgorithm) -> dict[str, dict[str, Any]]:
    """
    What callbacks need to continue a training, by the callback's name. SB3 saves the attributes of a model, whatever
    its class, so this travels with every model file: the only attribute that this package adds to models.

    :return: a dictionary to read and to change; its values may have what JSON has
    """
    return model.__dict__.setdefault("callback_state", {})


def _existing(model: ModelPath) -> Path:
    """As SB3 looks for it."""
    path = Path(model)
    return path if path.is_file() else zip_path(model)
