"""``sb3-ext show RUN``: what is known of a run, its files, and what to do next with it."""

import argparse
import json

from sb3_ext.cli.run_argument import add_run
from sb3_ext.runs.describe import describe_run, run_data
from sb3_ext.runs.find_run import find_run

__all__ = ["EPILOG", "add_arguments", "run"]

EPILOG = """examples:
  sb3-ext show @last
  sb3-ext show @best:CartPole-v1
  sb3-ext show ppo_ext/CartPole-v1_3 --json       run.json, with the state now, the files and their sizes
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_run(parser)
    parser.add_argument("--json", action="store_true", help="print an object, for programs")


def run(args: argparse.Namespace) -> int:
    folder = find_run(args.run, args.log_folder)
    print(json.dumps(run_data(folder), indent=2, default=str) if args.json else describe_run(folder))
    return 0
