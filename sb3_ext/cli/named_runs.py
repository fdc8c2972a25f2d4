"""Arguments that name runs, and the runs that they name."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from sb3_ext.runs.registry import LOG_FOLDER

if TYPE_CHECKING:
    from sb3_ext.runs.record import RunRecord

__all__ = ["RUN_HELP", "add_run_argument", "find", "read_run", "read_runs"]

RUN_HELP = "a run folder, @last, @best, an id, or the start of one; see docs/runs.md"


def add_run_argument(parser: argparse.ArgumentParser, many: bool = False) -> None:
    parser.add_argument("run", metavar="RUN", help=RUN_HELP, nargs="+" if many else None)
    parser.add_argument("-f", "--log-folder", metavar="FOLDER", default=LOG_FOLDER, help="where runs are looked up")


def find(name: str, args: argparse.Namespace) -> Path:
    """The folder of a run."""
    from sb3_ext.runs.find_run import find_run

    return find_run(name, args.log_folder)


def read_run(args: argparse.Namespace) -> "RunRecord":
    return read_runs(argparse.Namespace(run=[args.run], log_folder=args.log_folder))[0]


def read_runs(args: argparse.Namespace) -> list["RunRecord"]:
    from sb3_ext.runs.record import read_record

    return [read_record(find(name, args)) for name in args.run]
