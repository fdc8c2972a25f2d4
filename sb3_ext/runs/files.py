"""Names of files in a run folder, and atomic writes: a file is complete or does not exist.

A run can be killed at any moment, and others may read its folder while it is training.
"""

import json
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

__all__ = [
    "ALERTS_FILE",
    "LOG_FILE",
    "PROGRESS_FILES",
    "RUN_FILE",
    "atomic_write",
    "find_unfinished",
    "link_or_copy",
    "remove_unfinished",
    "write_json",
]

#: Alerts that fired, the facts about the training, and what it said
ALERTS_FILE, RUN_FILE, LOG_FILE = "alerts.json", "run.json", "run.log"
#: Rows of metrics. The CSV file comes first: reading it takes a third of the time
PROGRESS_FILES = ("progress.csv", "progress.json")
_PREFIX = ".unfinished-"


@contextmanager
def atomic_write(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yields a path in the same folder to write to. It replaces ``path`` if the block ends without an error."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    # A random name, so that nobody can have put a symbolic link there for us to write through
    unfinished = path.with_name(f"{_PREFIX}{secrets.token_hex(8)}-{path.name}")
    unfinished.touch(exist_ok=False)
    try:
        yield unfinished
        os.replace(unfinished, path)
    finally:
        unfinished.unlink(missing_ok=True)


def write_json(path: str | os.PathLike[str], data: Any) -> None:
    with atomic_write(path) as unfinished:
        unfinished.write_text(json.dumps(data, indent=2) + "\n", encoding="utf-8")


def link_or_copy(source: Path, target: Path) -> None:
    """Link or copy a file that is only ever replaced, never changed in place. An existing target is replaced."""
    with atomic_write(target) as unfinished:
        unfinished.unlink()
        try:
            os.link(source, unfinished)
        except OSError:
            shutil.copy2(source, unfinished)


def remove_unfinished(folder: str | os.PathLike[str], name: str | None = None) -> None:
    """
    Remove what a killed process left in a folder and those in it. Nobody may be writing there now.

    :param name: only unfinished files of this name, in the folder itself
    """
    for file in Path(folder).glob(f"**/{_PREFIX}*" if name is None else f"{_PREFIX}*-{name}"):
        file.unlink(missing_ok=True)


def find_unfinished(folder: str | os.PathLike[str]) -> list[Path]:
    """Files that are being written, or that a killed process left behind."""
    return sorted(Path(folder).glob(f"{_PREFIX}*"))
