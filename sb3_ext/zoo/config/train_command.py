"""Checks the command line of ``rl_zoo3.train`` before RL Zoo starts a W&B run or makes a folder."""

import argparse
import os
import sys
import types
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

import gymnasium as gym
import rl_zoo3.utils
import torch as th
from rl_zoo3.exp_manager import ExperimentManager
from rl_zoo3.utils import ALGOS, StoreDict
from stable_baselines3.common.base_class import BaseAlgorithm

from sb3_ext.common.clean_text import say
from sb3_ext.common.model_file import check_saved_by, read_model_file
from sb3_ext.common.names import nearest
from sb3_ext.common.usage_error import UsageError
from sb3_ext.zoo.command_line import is_our_command
from sb3_ext.zoo.commands import algo_flag, show_mistakes
from sb3_ext.zoo.config.check import check_training, training_section
from sb3_ext.zoo.config.files import Section, is_yaml
from sb3_ext.zoo.config.parts import env_problems
from sb3_ext.zoo.config.reader import Problem, raise_problems
from sb3_ext.zoo.config.schema import section_parameters
from sb3_ext.zoo.registry import ALGORITHMS

__all__ = ["patch_train_parser", "read_pairs"]

#: Numbers that must be at least 1, and the value that means "not given"
_COUNTS = {
    "n_timesteps": ("-n", -1),
    "num_threads": ("--num-threads", -1),
    "eval_episodes": ("--eval-episodes", None),
    "n_eval_envs": ("--n-eval-envs", None),
    "n_trials": ("--n-trials", None),
    "n_jobs": ("--n-jobs", -1),
    "n_evaluations": ("--n-evaluations", None),
}
_LARGEST_SEED = 2**32 - 1


def patch_train_parser() -> None:
    """
    RL Zoo evaluates ``-params`` and looks for the environment and the agent with tracebacks as answers, and starts a
    W&B run before it reads the hyperparameters. Its parser has no name that could be replaced, only its module has.
    """
    for name in ("rl_zoo3.train", "__main__"):
        module: Any = sys.modules.get(name)
        if getattr(getattr(module, "__spec__", None), "name", None) == "rl_zoo3.train":
            module.argparse = types.SimpleNamespace(**{**vars(argparse), "ArgumentParser": _TrainParser})


def read_pairs(pairs: Sequence[str]) -> dict[str, Any]:
    """``key:value`` as RL Zoo reads it: the value is Python code."""
    read: dict[str, Any] = {}
    for pair in pairs:
        key, colon, text = pair.partition(":")
        if not colon or not key or not text:
            raise ValueError(f"{pair!r} must be a key and a value, such as gamma:0.99")
        try:
            read[key] = eval(text, dict(vars(rl_zoo3.utils)))
        # The code may raise anything
        except Exception as error:
            is_text = isinstance(error, (NameError, SyntaxError))
            advice = f'write text in quotes, as in "{key}:{text!r}"' if is_text else error
            raise ValueError(f"{pair!r} is not a Python value: {advice}") from None
    return read


class _Pairs(argparse.Action):
    """``-params key:value …``"""

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: str | None = None) -> None:
        try:
            setattr(namespace, self.dest, read_pairs(values))
        except ValueError as error:
            raise argparse.ArgumentError(self, str(error)) from None


class _TrainParser(argparse.ArgumentParser):
    """With stock algorithms it is argparse's, unless the section has ``ext:``."""

    def add_argument(self, *args: Any, **kwargs: Any) -> argparse.Action:
        if kwargs.get("action") is StoreDict and _is_ours():
            kwargs["action"] = _Pairs
        return super().add_argument(*args, **kwargs)

    def error(self, message: str) -> NoReturn:
        algo = algo_flag(sys.argv)
        if algo is not None and algo not in ALGOS:
            message = f"there is no algorithm {algo!r}: {nearest(algo, ALGOS)}"
        elif not _is_ours():
            super().error(message)
        if is_our_command():
            self.exit(2, f"sb3-ext train: {message}\n`sb3-ext train --help` explains the options.\n")
        self.exit(2, f"{self.prog}: error: {message}\n--help lists all options.\n")

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        given = super().parse_args(args, namespace)
        if given.algo in ALGORITHMS or is_our_command():
            raise_problems(_problems(given))
        elif _stock_section(given) is not None:
            show_mistakes()
            raise_problems(_problems(given))
        return given


def _is_ours() -> bool:
    return algo_flag(sys.argv) in ALGORITHMS or is_our_command()


def _stock_section(args: argparse.Namespace) -> Section | None:
    """The section of a stock algorithm, if it has options of ours. What is wrong without them is RL Zoo's business."""
    if args.env not in gym.registry or not is_yaml(args.conf_file or ".yml"):
        return None
    try:
        section = _section(args)
    except UsageError:
        return None
    return section if "ext" in section.values else None


def _problems(args: argparse.Namespace) -> Iterator[Problem]:
    """In the order in which a training needs things; what does not depend on each other is reported together."""
    for package in args.gym_packages:
        try:
            import_module(package)
        except ModuleNotFoundError as error:
            if error.name is None or not f"{package}.".startswith(f"{error.name}."):
                raise  # the package imports another one that is missing
            raise UsageError(f"--gym-packages: there is no module {package!r}, neither installed nor here.") from error
    if args.env not in gym.registry:
        raise UsageError(f"--env: there is no environment {args.env!r}: {nearest(args.env, list(gym.registry))}")
    yield from _number_problems(args)
    for flag, folder in (("-f", args.log_folder), ("-tb", args.tensorboard_log)):
        yield from _folder_problems(flag, folder)
    yield from _env_kwargs_problems(args.env, args.env_kwargs, "--env-kwargs")
    yield from _env_kwargs_problems(args.env, args.eval_env_kwargs, "--eval-env-kwargs")
    if args.trained_agent:
        yield from _agent_problems(args.trained_agent, ALGOS[args.algo])
    section = _section(args)
    if args.trial_id is None:  # a trial changes the section; it is read later
        has_budget = args.n_timesteps > 0
        yield from check_training(section, section.values, args.algo, args.env, has_budget, args.log_folder)


def _section(args: argparse.Namespace) -> Section:
    is_atari = ExperimentManager.is_atari(args.env)
    return training_section(args.conf_file, args.algo, args.env, is_atari, args.hyperparams)


def _number_problems(args: argparse.Namespace) -> Iterator[Problem]:
    for name, (flag, unset) in _COUNTS.items():
        number = getattr(args, name)
        if number != unset and number is not None and number < 1:
            yield Problem(flag, f"{number} must be at least 1.")
    if args.seed > _LARGEST_SEED:
        yield Problem("--seed", f"{args.seed} must be at most {_LARGEST_SEED}; a negative one means a random seed.")
    if args.log_interval == 0:
        yield Problem("--log-interval", "0 must be at least 1; -2 switches logging off.")
    yield from _device_problems(args.device)


def _device_problems(device: str) -> Iterator[Problem]:
    try:
        if device != "auto":
            th.zeros(1, device=device)
    except (AssertionError, NotImplementedError, RuntimeError) as error:
        reason = str(error).split("\n")[0].removesuffix(".")
        if device.split(":")[0] == "cuda" and not th.cuda.is_available():
            say(f"--device {device}: there is no GPU for torch ({reason}). SB3 uses the CPU instead.")
        else:
            yield Problem("--device", f"{device!r} can't be used ({reason}): choose auto, cpu or cuda.")


def _folder_problems(flag: str, folder: str) -> Iterator[Problem]:
    existing = Path(folder).absolute()
    while not existing.exists():
        existing = existing.parent
    if not existing.is_dir():
        yield Problem(f"{flag} {folder}", f"{existing} is a file: choose a folder.")
    elif not os.access(existing, os.W_OK | os.X_OK):
        yield Problem(f"{flag} {folder}", f"{existing} can't be written to: choose another folder.")


def _env_kwargs_problems(env_id: str, kwargs: Any, flag: str) -> Iterator[Problem]:
    yield from (Problem(flag, line) for line in env_problems(env_id, kwargs))


def _agent_problems(path: str, algorithm: type[BaseAlgorithm]) -> Iterator[Problem]:
    """Whether ``-i`` is a whole model that this algorithm can load. Nothing in it is unpickled."""
    if not path.endswith(".zip") or not Path(path).is_file():
        yield Problem("-i", f"{path!r} is not a saved agent: expected the path of an existing .zip file.")
        return
    try:
        read_model_file(path)
        if hasattr(algorithm, "schedulable"):
            check_saved_by(algorithm.__name__, section_parameters(algorithm), path)
    except ValueError as error:
        yield Problem("-i", str(error))
