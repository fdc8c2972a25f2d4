"""``sb3-ext tune ENV``: finds hyperparameters with Optuna, and checks on fresh seeds that they are better."""

import argparse

from sb3_ext.cli.run_argument import add_log_folder
from sb3_ext.cli.whole_number import whole_number

__all__ = ["EPILOG", "add_arguments", "run"]

EPILOG = """examples:
  sb3-ext tune CartPole-v1 --minutes 10
  sb3-ext tune Acrobot-v1 --trials 40 --timesteps 100000 --seeds 3
  sb3-ext tune LunarLander-v3 --conf-file my.yml --space my_space.yml --objective steps
  sb3-ext tune CartPole-v1 --algo dqn --sampler cmaes --pruner hyperband
  sb3-ext tune Pong-v5_objects --from @best:Pong-v5_objects        go on from a run: its hyperparameters and its policy
  sb3-ext tune CartPole-v1 --storage postgresql://user:password@host/db     on several machines: the same command
  sb3-ext tune CartPole-v1 --ray auto                                       on a Ray cluster
  sb3-ext tune CartPole-v1 --sampler llm,tpe --llm-command "llm -m MODEL"   a language model and TPE in turn

A configuration is trained with several seeds and judged by the lower quartile of their scores. The first trials are
the current hyperparameters and RL Zoo's. At the end, the best configuration is compared with the start on fresh
seeds; it is written to tuned.yml in the study's folder if it is better. Ctrl-C keeps everything: the same command
continues the study. docs/tuning.md explains it all.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("env", metavar="ENV", help="environment id")
    parser.add_argument("--algo", default="ppo_ext", help="algorithm, of sb3-ext or RL Zoo (default: ppo_ext)")
    _add_start(parser.add_argument_group("where to start"))
    _add_budget(parser.add_argument_group("how long: what comes first ends the search"))
    _add_training(parser.add_argument_group("each training, and how it is judged"))
    _add_search(parser.add_argument_group("how to search"))
    _add_place(parser.add_argument_group("the study, and where it runs"))
    _add_end(parser.add_argument_group("the end"))


def _add_start(group: argparse._ArgumentGroup) -> None:
    group.add_argument("-conf", "--conf-file", metavar="FILE", help="hyperparameter file (default: as in training)")
    group.add_argument("--from", dest="from_run", metavar="RUN", help="start from a run: hyperparameters and policy")
    group.add_argument("--no-rl-zoo", action="store_true", help="don't try RL Zoo's hyperparameters first")
    group.add_argument("--space", metavar="FILE", help="search space (default: ours for the algorithm)")
    group.add_argument("--gym-packages", nargs="+", default=[], metavar="MODULE", help="modules to import first")


def _add_budget(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--trials", type=whole_number, help="configurations to try (default: 50, without other limits)")
    group.add_argument("--steps", type=whole_number, help="timesteps of all trainings together")
    group.add_argument("--minutes", type=float, help="time, with the comparison at the end")


def _add_training(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--timesteps", type=whole_number, help="of each training (default: as in the hyperparameter file)"
    )
    group.add_argument("--seeds", type=whole_number, help="seeds that a configuration is trained with (default: 3)")
    group.add_argument("--evaluations", type=whole_number, help="of each training, evenly spaced (default: 10)")
    group.add_argument("--episodes", type=whole_number, help="of each evaluation (default: 5)")
    group.add_argument(
        "--objective",
        choices=("auc", "steps", "final"),
        help="score of a training: area under the curve of evaluations (default), steps to the threshold, or the mean "
        "of the last third of evaluations",
    )
    group.add_argument("--quantile", type=float, help="of the seeds' scores (default: 0.25; 0.5 is the median)")
    group.add_argument(
        "--clock", action="store_true", default=None, help="judge by time: each training gets the time of the start"
    )
    group.add_argument("--threshold", type=float, help="score that counts as solved (default: the environment's own)")


def _add_search(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--sampler", default="tpe", help="tpe (default), cmaes, gp, qmc, random, llm; several in turn: a,b"
    )
    group.add_argument("--pruner", help="stops hopeless trials: median (default), wilcoxon, hyperband or none")
    group.add_argument("--startup-trials", type=whole_number, default=10, help="random trials at first (default: 10)")
    group.add_argument("--seed", type=int, help="of the study; with one worker, the same seed gives the same trials")
    group.add_argument("--llm-command", metavar="COMMAND", help="reads a prompt on standard input, answers with YAML")
    group.add_argument(
        "--llm-timeout", type=float, default=120.0, metavar="SECONDS", help="for an answer (default: 120)"
    )


def _add_place(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--study", metavar="NAME", help="name of the study (default: the algorithm and the environment)")
    group.add_argument(
        "--storage", metavar="URL", help="of the study: a .log file (default), sqlite:///FILE or postgresql://…"
    )
    group.add_argument("--workers", type=whole_number, help="trainings at once (default: as many as cores)")
    group.add_argument("--ray", metavar="ADDRESS", help="train on a Ray cluster: auto, or its address")
    add_log_folder(group)  # type: ignore[arg-type]


def _add_end(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--finalists", type=whole_number, default=3, help="best trials to train again on other seeds (default: 3)"
    )
    group.add_argument(
        "--fresh-seeds", type=int, default=5, help="seeds of the final comparison (default: 5); 0: no comparison"
    )
    group.add_argument("--track", action="store_true", help="log the study to Weights & Biases")
    group.add_argument("--wandb-project-name", default="sb3", metavar="NAME", help="project there (default: sb3)")
    group.add_argument("--wandb-entity", metavar="NAME", help="team or user there")


def run(args: argparse.Namespace) -> int:
    from sb3_ext.tune.command import tune  # imports torch and Optuna

    return tune(args)
