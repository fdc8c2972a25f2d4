"""Which folders a client may name: runs in the log folder, and nothing else. Links that lead outside are refused."""

from pathlib import Path

from sb3_ext.common.clean_text import printable
from sb3_ext.common.usage_error import UsageError
from sb3_ext.runs.find_run import find_listed_run
from sb3_ext.runs.folders import is_run

__all__ = ["check_inside", "find_inside"]

#: Characters of a name
_MAX_NAME = 300


def find_inside(name: str, log_folder: Path) -> Path:
    """
    As :func:`~sb3_ext.runs.find_run.find_run`, which also takes runs from anywhere and from W&B.

    :param log_folder: resolved
    :raises UsageError: when there is no such run in the log folder
    """
    if len(name) > _MAX_NAME or printable(name) != name:
        raise UsageError(f"{printable(name)[:50]!r} is not the name of a run: list_runs shows them.")
    if not name.startswith("@"):
        places = [_resolved(log_folder / name), _resolved(Path(name))]
        inside = [place for place in places if place.is_relative_to(log_folder)]
        if not inside:
            raise UsageError(f"{name!r} is not in the log folder: only its runs can be used. list_runs shows them.")
        for place in inside:
            if is_run(place):
                return _checked(place, log_folder)
    return _checked(find_listed_run(name, log_folder), log_folder)


def check_inside(path: Path, log_folder: Path) -> None:
    """:raises UsageError: when the path, or a link in it, leads out of the log folder"""
    if not _resolved(path).is_relative_to(log_folder):
        raise UsageError(f"{path} is a link that leads out of the log folder. This is refused.")


def _checked(run: Path, log_folder: Path) -> Path:
    check_inside(run, log_folder)
    for path in (*run.glob("*"), *run.glob("*/*")):
        if path.is_symlink():
            check_inside(path, log_folder)
    return _resolved(run)


def _resolved(path: Path) -> Path:
    try:
        return path.resolve()
    except RuntimeError:  # links in a circle
        raise UsageError(f"{path} can't be read: it is a link to itself.") from None
