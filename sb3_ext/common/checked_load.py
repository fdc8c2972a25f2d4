"""``load`` that refuses what SB3's takes in silence: unknown keywords, and agents of another algorithm."""

from __future__ import annotations

import inspect
import io
import json
import zipfile
from typing import Any, Self

from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.save_util import open_path

from sb3_ext.common.names import check_keywords

__all__ = ["CheckedLoad"]

#: A saved attribute that only some algorithms have, and which.
_MARKS = {
    "clip_range": "PPO",
    "baseline": "REINFORCE",
    "replay_buffer_class": "an off-policy algorithm",
    "cg_damping": "TRPO",
    "delta_std": "ARS",
}


class CheckedLoad(BaseAlgorithm):
    """Mixin, before the SB3 class in the bases."""

    @classmethod
    def load(cls, path: Any, *args: Any, **kwargs: Any) -> Self:
        parameters = inspect.signature(cls.__init__).parameters
        takes_anything = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters.values())
        if not takes_anything:
            known = {*parameters, *inspect.signature(BaseAlgorithm.load).parameters}
            check_keywords(f"{cls.__name__}.load", kwargs, known)
            cls._check_saved_by(path, set(parameters))
        return super().load(path, *args, **kwargs)

    @classmethod
    def _check_saved_by(cls, path: Any, parameters: set[str]) -> None:
        saved = _saved_names(path)
        for mark, owner in _MARKS.items():
            if mark in saved and mark not in parameters:
                raise ValueError(f"{path} is an agent of {owner} (it has {mark!r}): {cls.__name__} can't load it.")
            if mark in parameters and mark not in saved:
                raise ValueError(f"{path} is no agent of {owner} (it has no {mark!r}): {cls.__name__} can't load it.")


def _saved_names(path: Any) -> set[str]:
    """The names of the attributes in a saved agent."""
    position = path.tell() if isinstance(path, io.IOBase) else None
    file = open_path(path, "r", suffix="zip")
    with zipfile.ZipFile(file) as archive:
        names = set(json.loads(archive.read("data")))
    if position is None:
        file.close()
    else:
        file.seek(position)
    return names
