"""Gives each training its own run folder, even if several start at once."""

import itertools
import os
import shutil
from contextlib import suppress
from pathlib import Path

from rl_zoo3.utils import get_latest_run_id

__all__ = ["claim_folder", "missing_folders", "remove_folders"]


def claim_folder(wanted: str, log_path: str, env_name: str) -> str:
    """
    Make the folder, or one with a higher number if another training has it. RL Zoo chooses the number long before it
    makes the folder, and would share an existing one.
    """
    os.makedirs(log_path, exist_ok=True)
    first = get_latest_run_id(log_path, env_name) + 1
    numbered = (os.path.join(log_path, f"{env_name}_{number}") for number in itertools.count(first))
    for folder in itertools.chain([wanted], numbered):
        try:
            os.makedirs(folder)  # only one of them can
            return folder
        except FileExistsError:
            continue
    raise AssertionError("unreachable")


def missing_folders(path: str) -> list[Path]:
    """Those of a path, the deepest first, that don't exist yet."""
    return [folder for folder in (Path(path), *Path(path).parents) if not folder.exists()]


def remove_folders(run: str | None, made: list[Path]) -> None:
    """
    Remove what a training made that was refused.

    :param run: its folder, with all that is in it
    :param made: folders above it, which may have other runs by now
    """
    if run is not None:
        shutil.rmtree(run, ignore_errors=True)
    for folder in made:
        with suppress(OSError):
            folder.rmdir()
