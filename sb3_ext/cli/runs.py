"""``sb3-ext runs``: the runs of a log folder as a table. Imports little: it must answer at once."""

import argparse
import json
import shutil
import sys
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from sb3_ext.cli.run_argument import add_log_folder
from sb3_ext.common.clean_text import printable
from sb3_ext.common.usage_error import UsageError
from sb3_ext.runs.find_run import find_run
from sb3_ext.runs.registry import Registry
from sb3_ext.runs.selection import SORTED_BY, STATES, select_runs

__all__ = ["EPILOG", "add_arguments", "run"]

EPILOG = """examples:
  sb3-ext runs                                      the newest 30
  sb3-ext runs --env 'CartPole*' --sort score       the best first
  sb3-ext runs --state killed failed -n 0           all that did not end well
  sb3-ext runs -f elsewhere --json                  for programs
  sb3-ext runs --compare --env CartPole-v1          score over seeds of each algorithm and hyperparameters
  sb3-ext runs --compare logs/ppo/Acrobot-v1_* logs/ppo_ext/Acrobot-v1_*         the first is the baseline
  sb3-ext runs --rebuild                            reads all folders again, with the logs of runs without run.json

The first column names a run for other commands, such as `sb3-ext show`; so does its id, or the start of it.
"""
#: Columns in this order. If the terminal is narrow, the last ones go first
_COLUMNS = (
    "run",
    "state",
    "score",
    "id",
    "steps",
    "time",
    "started",
    "threshold",
    "solved",
    "seed",
    "parent",
    "ended by",
)
_NUMBERS = ("score", "steps", "time", "threshold", "seed")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_log_folder(parser)
    parser.add_argument("--env", help="only of this environment; * matches anything")
    parser.add_argument("--algo", help="only of this algorithm; * matches anything")
    parser.add_argument("--state", nargs="+", choices=STATES, help=f"only in these states: {', '.join(STATES)}")
    parser.add_argument("--sort", choices=list(SORTED_BY), default="started", help="order (default: newest first)")
    parser.add_argument("-n", type=int, default=30, help="number of runs to show; 0: all (default: 30)")
    parser.add_argument("--json", action="store_true", help="print a list of objects")
    parser.add_argument(
        "--compare", nargs="*", metavar="RUN", help="compare these runs, or all that the other options leave, by group"
    )
    parser.add_argument("--rebuild", action="store_true", help="write runs.jsonl anew from the run folders")


def run(args: argparse.Namespace) -> int:
    folder = Path(args.log_folder)
    if args.compare:
        return _compare([find_run(name, folder) for name in args.compare], args)
    if not folder.is_dir():
        raise UsageError(f"There is no folder {folder}. For another log folder: sb3-ext runs -f FOLDER")
    registry = Registry(folder)
    entries = registry.rebuild() if args.rebuild else registry.entries()
    found = select_runs(entries, args.env, args.algo, args.state, args.sort)
    if args.compare is not None and found:
        # The oldest is the baseline
        return _compare([folder / entry["folder"] for entry in reversed(found)], args)
    shown = found[: args.n] if args.n > 0 else found
    if args.json:
        print(json.dumps([{**entry, "path": str(folder / entry["folder"])} for entry in shown], indent=2))
        return 0
    if not found:
        print(f"No run in {folder} matches: it has {len(entries)}." if entries else f"No runs in {folder}.")
        return 1
    _print_table([_cells(entry) for entry in shown])
    if len(shown) < len(found):
        print(f"{len(shown)} of {len(found)} runs; -n 0 shows all")
    unread = sum(entry["id"] is None and entry["score"] is None for entry in shown)
    if unread and not args.rebuild:
        print(f"{unread} without run.json: `sb3-ext runs -f {folder} --rebuild` reads scores and steps from their logs")
    return 0


def _compare(folders: list[Path], args: argparse.Namespace) -> int:
    from sb3_ext.runs.report.comparison import comparison_data, comparison_text

    print(json.dumps(comparison_data(folders), indent=2) if args.json else comparison_text(folders))
    return 0


def _cells(entry: dict[str, Any]) -> dict[str, str]:
    name, seconds, solved = entry["folder"], entry["seconds"], entry["solved"]
    # Outside of RL Zoo, a folder does not say what was trained
    what = [entry[key] for key in ("algo", "env") if entry[key] and entry[key] not in name]
    cells = {
        "run": f"{name} ({', '.join(what)})" if what else name,
        "state": entry["state"] or "unknown",
        "score": _number(entry["score"]),
        "id": entry["id"],
        "steps": None if entry["steps"] is None else f"{entry['steps']:,.0f}",
        "time": None if seconds is None else str(timedelta(seconds=int(min(max(seconds, 0), 1e9)))),
        "started": _local_time(entry["started"]),
        "threshold": _number(entry["threshold"]),
        "solved": None if solved is None else "yes" if solved else "no",
        "seed": _number(entry["seed"]),
        "parent": entry["parent"],
        "ended by": entry["stop_reason"],
    }
    return {column: " ".join(printable(cells[column] or "").split()) for column in _COLUMNS}


def _number(value: float | None) -> str | None:
    return None if value is None else f"{value:.0f}" if value == int(value) else f"{value:.4g}"


def _local_time(started: str | None) -> str | None:
    try:
        return datetime.fromisoformat(started or "").astimezone().strftime("%Y-%m-%d %H:%M")
    except (ValueError, OverflowError):
        return None


def _print_table(rows: list[dict[str, str]]) -> None:
    """A column that no run has is left out, and so are the last ones if the terminal is too narrow."""
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else 10_000
    widths: dict[str, int] = {}
    for column in _COLUMNS:
        longest = max(len(row[column]) for row in rows)
        needed = max(longest, len(column))
        left = width - sum(widths.values()) - 2 * len(widths)
        # These two are cut to fit
        if longest and (needed <= left or (column in ("run", "ended by") and left > 10)):
            widths[column] = min(needed, left)
    for row in ({column: column for column in widths}, *rows):
        cells = [_aligned(row[column], column, size) for column, size in widths.items()]
        print("  ".join(cells).rstrip())


def _aligned(cell: str, column: str, width: int) -> str:
    cell = cell if len(cell) <= width else f"{cell[: width - 1]}…"
    return cell.rjust(width) if column in _NUMBERS else cell.ljust(width)
