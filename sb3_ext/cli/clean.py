"""``sb3-ext clean``: lists what trainings left behind, and deletes it if told to."""

import argparse
import sys
from pathlib import Path

from sb3_ext.cli.run_argument import add_log_folder
from sb3_ext.common.clean_text import printable
from sb3_ext.common.usage_error import UsageError
from sb3_ext.runs.describe import shown_size
from sb3_ext.runs.leftovers import KINDS, Leftover, find_leftovers

__all__ = ["EPILOG", "add_arguments", "run"]

EPILOG = """examples:
  sb3-ext clean                          lists what could be deleted, and deletes nothing
  sb3-ext clean --yes                    deletes it, except failed and killed runs that have a model
  sb3-ext clean failed killed --yes      deletes all failed and killed runs
  sb3-ext clean checkpoints --keep 3     old checkpoints; the latest three, the best and the last model stay

A run that is running is left alone, and so is one whose state is unknown: of another computer, or of plain RL Zoo. A
killed run counts only when its files have not changed for ten minutes.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    what = "; ".join(f"{kind}: {meaning}" for kind, meaning in KINDS.items())
    parser.add_argument("kind", metavar="KIND", nargs="*", help=f"only these kinds (default: all). {what}")
    add_log_folder(parser)
    parser.add_argument("--keep", type=int, default=1, help="checkpoints to keep in each run (default: 1)")
    parser.add_argument("--yes", action="store_true", help="delete; without it, nothing is deleted")


def run(args: argparse.Namespace) -> int:
    folder = Path(args.log_folder)
    unknown = [kind for kind in args.kind if kind not in KINDS]
    if unknown or args.keep < 0:
        what = f"There is no kind {unknown[0]!r}; choose from" if unknown else "--keep must be 0 or more; kinds are"
        raise UsageError(f"{what} {', '.join(KINDS)}.")
    if not folder.is_dir():
        raise UsageError(f"There is no folder {folder}. For another log folder: sb3-ext clean -f FOLDER")
    found = list(find_leftovers(folder, args.kind, args.keep))
    left = [leftover for leftover in found if not leftover.is_kept]
    total = shown_size(sum(leftover.size for leftover in left))
    worked = [_handle(leftover, folder, args.yes) for leftover in found]
    kept = dict.fromkeys(leftover.kind for leftover in found if leftover.is_kept)
    if kept:
        print(f"Runs with a model are kept. To delete them too: sb3-ext clean {' '.join(kept)} -f {folder} --yes")
    if not left:
        print(f"Nothing to delete in {folder}.")
    elif not args.yes:
        print(f"{total} in total. To delete them, add --yes")
    return 0 if all(worked) else 1


def _handle(leftover: Leftover, folder: Path, deletes: bool) -> bool:
    """Print what it is, and delete it if it is not kept; returns whether that worked."""
    place = printable((leftover.run or leftover.paths[0]).relative_to(folder).as_posix())
    files = "" if leftover.paths[0].is_dir() else f": {len(leftover.paths)} file{'s' * (len(leftover.paths) > 1)}"
    line = f"{shown_size(leftover.size):>9}  {leftover.kind:<11}  {place}{files}"
    done = "has a model" if leftover.is_kept else "deleted" if deletes else ""
    try:
        if deletes and not leftover.is_kept:
            leftover.delete()
    except OSError as error:
        print(f"sb3-ext: not deleted: {place}: {error}", file=sys.stderr)
        return False
    print(f"{line}{done and f' ({done})'}")
    return True
