"""Arguments that name runs, and the runs that they name."""

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sb3_ext.runs.record import RunRecord

__all__ = ["add_run_arguments", "read_runs"]


def add_run_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("runs", metavar="RUN", nargs="+", help="run folder, such as logs/ppo_ext/CartPole-v1_1")


def read_runs(args: argparse.Namespace) -> list["RunRecord"]:
    from sb3_ext.runs.record import read_record

    return [read_record(run) for run in args.runs]
