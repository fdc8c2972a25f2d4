"""``sb3-ext report RUN``: the report of a training, from the files in its folder."""

import argparse

from sb3_ext.cli.run_argument import add_run
from sb3_ext.runs.find_run import find_run

__all__ = ["EPILOG", "add_arguments", "run"]

EPILOG = """examples:
  sb3-ext report @last                                       writes report.md and plots/ into the newest run
  sb3-ext report logs/ppo_ext/CartPole-v1_1                  the same for this one
  sb3-ext report logs/ppo/LunarLander-v3_* --no-plots        several runs, also of stock algorithms
  sb3-ext report logs/ppo_ext/CartPole-v1_1 --print          prints it and writes nothing
  sb3-ext report logs/dqn/MyEnv-v0_1 --threshold 200         for an environment without a threshold

The report uses what the folder contains: progress.json or progress.csv, evaluations.npz, Monitor's files, alerts.json,
and RL Zoo's config. Any of them may be missing; the report says which.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_run(parser, nargs="+")
    parser.add_argument("--print", action="store_true", dest="prints", help="print it instead of writing files")
    parser.add_argument("--plots", action=argparse.BooleanOptionalAction, default=True, help="PNG files (default: yes)")
    parser.add_argument("--threshold", type=float, help="score at which the task counts as solved")


def run(args: argparse.Namespace) -> int:
    from sb3_ext.runs.report.report import make_report, write_report  # the help needs no NumPy

    for name in args.run:
        folder = find_run(name, args.log_folder)
        if args.prints:
            print(make_report(folder, threshold=args.threshold))
        else:
            print(write_report(folder, plots=args.plots, threshold=args.threshold))
    return 0
