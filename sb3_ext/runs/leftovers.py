"""What trainings left behind and nobody needs: failed, killed and empty runs, old checkpoints, unfinished files.

A run that is running, or of which that is not known, is never among them.
"""

import os
import shutil
import time
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from sb3_ext.runs.agents.checkpoint import old_checkpoints
from sb3_ext.runs.alive import state_of
from sb3_ext.runs.files import find_unfinished
from sb3_ext.runs.folders import is_run
from sb3_ext.runs.registry import Registry, read_facts

__all__ = ["KINDS", "Leftover", "find_leftovers"]

KINDS = {
    "failed": "runs that ended with an error",
    "killed": "runs whose process was killed",
    "empty": "run folders without a file",
    "checkpoints": "checkpoints of runs that ended, except the latest",
    "unfinished": "files that were not written completely",
}
_ENDED = ("finished", "interrupted", "failed", "killed")
#: Seconds without a change. A process that we can't see may be in another container
_QUIET = 600.0


@dataclass(frozen=True)
class Leftover:
    """
    :param paths: files, or a folder
    :param run: its run folder; ``None`` for files in the log folder
    :param is_kept: it is a run with a model, which could be played or resumed, and its kind was not asked for
    """

    kind: str
    paths: tuple[Path, ...]
    run: Path | None = None
    is_kept: bool = False

    @property
    def size(self) -> int:
        """In bytes."""
        return sum(_stat(file).st_size for path in self.paths for file in _files(path))

    def delete(self) -> None:
        """:raises OSError: when something can't be deleted, or the run has been started again"""
        if self.run is not None and state_of(read_facts(self.run)) == "running":
            raise OSError(f"{self.run} is running again.")
        for path in self.paths:
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)


def find_leftovers(
    log_folder: str | os.PathLike[str], kinds: Collection[str] = (), keep: int = 1
) -> Iterator[Leftover]:
    """
    :param kinds: which of :data:`KINDS`; by default all, but runs that have a model are kept
    :param keep: number of checkpoints to keep in each run, besides the best and the last model
    """
    folder, wanted = Path(log_folder), kinds or KINDS
    for entry in Registry(folder).entries():
        run, state = folder / entry["folder"], entry["state"]
        if state not in _ENDED or (state == "killed" and not _is_quiet(run)):
            continue
        if state in ("failed", "killed") and state in wanted:
            is_kept = not kinds and any(run.glob("*.zip"))
            yield Leftover(state, (run,), run, is_kept)
            if not is_kept:
                continue
        old = [file for checkpoint in old_checkpoints(run, keep) for file in checkpoint.files]
        unfinished = [file for place in (run, *run.glob("*/")) for file in find_unfinished(place)]
        for kind, files in (("checkpoints", old), ("unfinished", unfinished)):
            if files and kind in wanted:
                yield Leftover(kind, tuple(files), run)
    if "empty" in wanted:
        yield from (Leftover("empty", (path,)) for path in sorted(folder.glob("*/*_[0-9]*")) if _is_empty(path))
    unfinished = [file for file in find_unfinished(folder) if _is_quiet(file)]
    if unfinished and "unfinished" in wanted:
        yield Leftover("unfinished", tuple(unfinished))


def _is_empty(path: Path) -> bool:
    numbered = path.is_dir() and path.name.rpartition("_")[2].isdecimal() and not path.is_symlink()
    return numbered and not is_run(path) and not any(map(Path.is_file, path.rglob("*"))) and _is_quiet(path)


def _is_quiet(path: Path) -> bool:
    changed = [_stat(file).st_mtime for file in (path, *_files(path))]
    return time.time() - max(changed) > _QUIET


def _files(path: Path) -> list[Path]:
    return [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]


def _stat(path: Path) -> os.stat_result:
    return path.stat(follow_symlinks=False)
