"""Files that are there as a whole or not at all: written under a temporary name, then renamed.

A run can be killed at any moment, and others may read its folder while it is training.
"""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from stable_baselines3.common.base_class import BaseAlgorithm

__all__ = ["remove_unfinished", "replacing", "same_file", "save_model"]

_PREFIX = ".unfinished-"


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """
    :param path: a file; what is there already stays until the new one is complete, and when it doesn't get there
    :return: the name to write to, in the same folder and with the same ending
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    # Nobody can guess the name, so nobody can have put a link there that we would write through
    unfinished = path.with_name(f"{_PREFIX}{secrets.token_hex(8)}-{path.name}")
    unfinished.touch(exist_ok=False)
    try:
        yield unfinished
        os.replace(unfinished, path)
    finally:
        unfinished.unlink(missing_ok=True)


def save_model(model: BaseAlgorithm, path: str | os.PathLike[str]) -> Path:
    """
    :param model: any algorithm of SB3
    :param path: where to save it, with or without ``.zip``
    :return: the file
    """
    file = Path(f"{os.fspath(path).removesuffix('.zip')}.zip")
    with replacing(file) as unfinished:
        model.save(unfinished)
    return file


def same_file(source: Path, target: Path) -> None:
    """
    Give a file a second name, at no cost where the file system can.

    :param source: a complete file, which is only ever replaced, not changed
    :param target: its other name; what has it now is replaced
    """
    with replacing(target) as unfinished:
        unfinished.unlink()
        try:
            os.link(source, unfinished)
        except OSError:
            shutil.copy2(source, unfinished)


def remove_unfinished(*folders: str | os.PathLike[str]) -> None:
    """
    :param folders: folders that nobody is writing to now; what a killed process left there is removed
    """
    for folder in folders:
        for file in Path(folder).glob(f"{_PREFIX}*"):
            file.unlink(missing_ok=True)
