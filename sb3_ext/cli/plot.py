"""``sb3-ext plot RUN…``: curves of runs, with seeds of the same training as one curve."""

import argparse
from itertools import count
from pathlib import Path

from sb3_ext.cli.run_argument import add_run
from sb3_ext.common.clean_text import say

__all__ = ["EPILOG", "add_arguments", "run"]

EPILOG = """examples:
  sb3-ext plot logs/ppo_ext/CartPole-v1_1                           one run
  sb3-ext plot logs/*/CartPole-v1_* -o docs/cartpole.svg            algorithms and seeds, as SVG
  sb3-ext plot logs/*/CartPole-v1_* --x seconds                     by time
  sb3-ext plot logs/ppo_ext/* --metric train/approx_kl --by learning_rate
  sb3-ext plot logs/ppo/CartPole-v1_1 logs/ppo/CartPole-v1_2 --by folder

Runs of the same algorithm, environment and hyperparameters are seeds of one curve: the interquartile mean with its 95 %
bootstrap interval. Other hyperparameters make another curve, whose label says which. Each environment has a panel.
Plain runs of RL Zoo work too.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_run(parser, nargs="+")
    parser.add_argument(
        "-o", "--output", metavar="FILE", help=".png or .svg (default: plot.png, or the next free plot_1.png, …)"
    )
    parser.add_argument(
        "--metric", help="metric to draw (default: eval/mean_reward, or rollout/ep_rew_mean without evaluations)"
    )
    parser.add_argument("--x", choices=["timesteps", "vec_steps", "seconds"], default="timesteps", help="x axis")
    parser.add_argument(
        "--by",
        nargs="+",
        default=[],
        metavar="SETTING",
        help="what tells curves apart, such as algo, learning_rate or folder (default: all settings but the seed)",
    )


def run(args: argparse.Namespace) -> int:
    # Importing matplotlib takes longer than the help
    from sb3_ext.runs.find_run import find_run
    from sb3_ext.runs.record import SCORE, read_record
    from sb3_ext.runs.report.compare import group_runs, is_evaluated
    from sb3_ext.runs.report.compare_plot import EVALUATION, curve_of, draw_groups, save_figure

    groups, notes = group_runs([read_record(find_run(name, args.log_folder)) for name in args.run], args.by)
    metric = args.metric or (EVALUATION if is_evaluated(groups) else SCORE)
    path = save_figure(draw_groups(groups, metric, args.x), args.output or _free_name())
    without = [group for group in groups if not any(len(curve_of(run, metric).values) for run in group.runs)]
    notes += [f"{group.env_id}, {group.label}: no {metric}, so there is no curve." for group in without]
    for note in notes:
        say(note)
    say(f"{path}: {metric} of {len(groups)} group{'s' * (len(groups) != 1)} of runs")
    return 0


def _free_name() -> Path:
    names = (Path(f"plot_{number}.png" if number else "plot.png") for number in count())
    return next(name for name in names if not name.exists())
