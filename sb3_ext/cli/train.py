"""``sb3-ext train``: RL Zoo's ``train``, with our algorithm by default and a few options more."""

import argparse

from sb3_ext.zoo.command_line import add_options, run_command, typed_words

__all__ = ["EPILOG", "add_arguments", "run"]

_ALGO = "ppo_ext"
EPILOG = """examples:
  sb3-ext train --env LunarLander-v3
  sb3-ext train --algo reinforce --env CartPole-v1 --seed 1 -n 50000
  sb3-ext train --env CartPole-v1 -params n_steps:256 "policy_kwargs:dict(net_arch=[64])"
  sb3-ext train --env MyEnv-v0 --gym-packages my_envs --conf-file my.yml
  sb3-ext train --algo reinforce --env CartPole-v1 -optimize --n-trials 50 --study-name s --storage sqlite:///s.db
  sb3-ext train --env LunarLander-v3 --init-from logs/ppo_ext/LunarLander-v3_1 -params learning_rate:0.0001
  sb3-ext train --env CartPole-v1 -params ext.evaluation.every:5000 ext.threshold:400

`-params ext.topic.option:value` changes one option of sb3-ext and keeps the others of the hyperparameter file.
The same as `python -m rl_zoo3.train` with the same options, to the last bit. The algorithm is ppo_ext unless you say
otherwise.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "sb3-ext train [--algo ALGO] [--env ENV] [options]"
    ours = parser.add_argument_group("options of sb3-ext")
    ours.add_argument("--init-from", metavar="RUN", help="start with the weights of another run, as far as they fit")
    ours.add_argument(
        "--resume", metavar="RUN[@CHECKPOINT]", help="continue a run, with this command's options; see `sb3-ext resume`"
    )
    add_options(parser.add_argument_group("options of RL Zoo"), "train", algo=_ALGO)


def run(args: argparse.Namespace) -> int:
    args.algo = getattr(args, "algo", _ALGO)
    for name in ("init_from", "resume"):
        if getattr(args, name) is not None:
            # As a hyperparameter, so that RL Zoo passes it on and keeps it
            args.hyperparams = [*getattr(args, "hyperparams", []), f"ext.{name}:{getattr(args, name)!r}"]
    run_command("train", typed_words("train", args))
    return 0
