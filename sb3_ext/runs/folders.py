"""Run folders on disk: what makes a folder one, and where they are. Imports little, for commands that must be quick."""

import os
from collections.abc import Collection, Iterator
from pathlib import Path

from sb3_ext.common.names import nearest
from sb3_ext.common.usage_error import UsageError
from sb3_ext.runs.files import PROGRESS_FILES, RUN_FILE

__all__ = ["check_is_run", "find_folders", "is_run"]

#: A mistyped name must not make us search a whole disk
_MANY = 5000
#: Levels of folders to search: RL Zoo's runs are on the second
_DEPTH = 3


def is_run(folder: Path) -> bool:
    has_file = any((folder / name).is_file() for name in (*PROGRESS_FILES, "evaluations.npz", RUN_FILE))
    return has_file or any(folder.glob("*.monitor.csv")) or any(folder.glob("*/args.yml"))


def find_folders(top: Path, known: Collection[str] = (), depth: int = _DEPTH) -> Iterator[Path]:
    """
    :param known: folders that are runs, relative to ``top``: they are left out
    :return: other run folders below ``top``, or ``top`` itself
    """
    waiting = [(top, 0)]
    for _ in range(_MANY):
        if not waiting:
            return
        folder, level = waiting.pop()
        if folder.relative_to(top).as_posix() in known:
            continue
        if is_run(folder):
            yield folder
        elif level < depth:
            waiting += [(path, level + 1) for path in reversed(_subfolders(folder))]


def _subfolders(folder: Path) -> list[Path]:
    try:
        with os.scandir(folder) as entries:
            names = sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
    except OSError:
        return []
    return [folder / name for name in names if not name.startswith(".")]


def check_is_run(folder: Path) -> None:
    """:raises UsageError: when it is not one; the message names the nearest one"""
    if is_run(folder):
        return
    # Suggest runs below it, or else its neighbours, even if its parent is mistyped
    existing = next((place for place in (folder, *folder.parents) if place.is_dir()), Path())
    runs = list(find_folders(existing))
    what = "has no files of a training" if folder.is_dir() else "does not exist"
    if not runs:
        raise UsageError(f"{folder} {what}: a run folder of RL Zoo looks like logs/ppo_ext/CartPole-v1_1.")
    if existing == folder:
        few = ", ".join(str(run) for run in runs[:10])
        raise UsageError(f"{folder} {what} itself. Runs in it: {few}{', …' if len(runs) > 10 else ''}")
    raise UsageError(f"{folder} {what}: {nearest(str(folder), [str(run) for run in runs[:200]])}")
