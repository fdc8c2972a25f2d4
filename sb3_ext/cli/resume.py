"""``sb3-ext resume RUN``: continues a training that was interrupted, killed or is to be longer."""

import argparse

from sb3_ext.cli.whole_number import whole_number
from sb3_ext.runs.find_run import find_run, split_checkpoint

__all__ = ["EPILOG", "add_arguments", "run"]

EPILOG = """examples:
  sb3-ext resume @last                                 continue the latest run where it stopped
  sb3-ext resume logs/ppo_ext/CartPole-v1_3 -n 200000  train it up to 200,000 timesteps in all
  sb3-ext resume @last -n 2e5 --schedules continue     and leave schedules at their last values
  sb3-ext resume @last@best                            from its best model
  sb3-ext resume @last@100000 -params ent_coef:0.01    from a checkpoint, with another entropy coefficient

The training continues in its folder, with its command line, its curves and its W&B run. From the latest state or a
checkpoint of sb3-ext it continues exactly, to the last bit, if the state of its environments can be saved; if not, it
says so and starts new episodes. Models contain pickles, which can run any code: only resume runs that you trust.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", metavar="RUN[@CHECKPOINT]", help="@last, @best, an id or a folder; see `sb3-ext runs`")
    parser.add_argument("-f", "--log-folder", default="logs", help="where runs are (default: logs)")
    parser.add_argument(
        "-n", "--n-timesteps", type=whole_number, metavar="N", help="timesteps in all (default: as planned)"
    )
    parser.add_argument(
        "-params", "--hyperparams", nargs="+", default=[], metavar="NAME:VALUE", help="hyperparameters to change"
    )
    parser.add_argument(
        "--schedules",
        choices=("stretch", "continue"),
        default="stretch",
        help="with more timesteps: stretch schedules over all of them (default), or continue with the old ones",
    )
    parser.add_argument("--fresh-optimizer", action="store_true", help="don't restore the optimizer's momentum")
    parser.add_argument("--track", action="store_true", help="log to W&B from now on")


def run(args: argparse.Namespace) -> int:
    find_run(split_checkpoint(args.run)[0], args.log_folder)  # a mistake is answered before the slow imports
    from sb3_ext.zoo.resume import ResumeOptions, resume_run

    further = [] if args.n_timesteps is None else ["-n", str(args.n_timesteps)]
    further += ["-params", *args.hyperparams] if args.hyperparams else []
    further += ["--track"] if args.track else []
    options = ResumeOptions(run=args.run, schedules=args.schedules, optimizer=not args.fresh_optimizer)
    resume_run(options, args.log_folder, further)
    return 0
