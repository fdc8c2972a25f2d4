"""``sb3-ext config``: checks, formats and explains hyperparameter files."""

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any

from sb3_ext.common.names import check_choice
from sb3_ext.common.usage_error import UsageError

__all__ = ["EPILOG", "add_arguments", "run"]

EPILOG = """examples:
  sb3-ext config check my.yml --algo ppo_ext              every section; all mistakes at once
  sb3-ext config check ppo_ext.yml --env CartPole-v1      the algorithm is the file's name
  sb3-ext config format my.yml --algo ppo_ext             keys in canonical order; comments stay
  sb3-ext config format *.yml --check                     for CI: writes nothing
  sb3-ext config show CartPole-v1 ppo_ext -params gamma:0.9
  sb3-ext config show CartPole-v1 ppo_ext --study-name s --storage sqlite:///s.db --trial-id 7 --yaml > my.yml
  sb3-ext config schema --algo ppo_ext -o schema.json     for editors, see docs/configs.md

Checking imports what a file names and evaluates its Python code, as training does: only check files that you trust.
exit codes: 0 right, 1 not formatted (format --check), 2 mistakes
"""
_DEFAULT_ALGO = "ppo_ext"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    check = actions.add_parser("check", help="find mistakes in files")
    check.add_argument("file", metavar="FILE", nargs="+")
    check.add_argument("--env", help="only the section of this environment")
    check.add_argument("-f", "--log-folder", help="where the runs of ext: resume and init_from are, which must exist")
    check.add_argument("--json", action="store_true", help="print JSON")
    check.add_argument("--gym-packages", nargs="+", default=[], metavar="PACKAGE", help="import these too")
    formats = actions.add_parser("format", help="put keys in canonical order")
    formats.add_argument("file", metavar="FILE", nargs="+")
    formats.add_argument("--check", action="store_true", help="write nothing; exit code 1 if a file would change")
    for action in (check, formats):
        action.add_argument("--algo", help="by default the file's name")
    show = actions.add_parser("show", help="what a training would use, and where each value comes from")
    show.add_argument("env", metavar="ENV")
    show.add_argument("algorithm", metavar="ALGO", nargs="?", help=f"or --algo; default: {_DEFAULT_ALGO}")
    show.add_argument("--algo", help=argparse.SUPPRESS)
    show.add_argument("-conf", "--conf-file", metavar="FILE", help="by default the algorithm's own")
    show.add_argument(
        "-params", "--hyperparams", nargs="+", default=[], metavar="KEY:VALUE", help="as RL Zoo takes them"
    )
    show.add_argument("--study-name", help="of Optuna")
    show.add_argument("--storage", help="of the study")
    show.add_argument("--trial-id", type=int, help="trial of the study; 0 is the first")
    show.add_argument("--gym-packages", nargs="+", default=[], metavar="PACKAGE", help="import these too")
    form = show.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print JSON")
    form.add_argument("--yaml", action="store_true", help="print a section that trains the same, for a file")
    schema = actions.add_parser("schema", help="a JSON schema for editors")
    schema.add_argument("--algo", default=_DEFAULT_ALGO, help=f"default: {_DEFAULT_ALGO}")
    schema.add_argument("-o", "--output", metavar="FILE", help="by default it is printed")


def run(args: argparse.Namespace) -> int:
    _import_zoo(getattr(args, "gym_packages", []))
    action = {"check": _check, "format": _format, "show": _show, "schema": _schema}[args.action]
    return action(args)


def _import_zoo(packages: list[str]) -> None:
    """RL Zoo with our algorithms, environments included. This takes seconds."""
    from importlib import import_module

    from sb3_ext import _autoload

    sys.path.insert(0, os.getcwd())  # as `python -m` does: wrappers may be in the folder
    _autoload.install()
    import_module("sb3_ext.zoo.models")
    for package in packages:
        import_module(package)


def _algo_of(path: str, algo: str | None) -> str:
    from sb3_ext.zoo.command_line import algorithms
    from sb3_ext.zoo.config.reader import ConfigError

    if algo is None and Path(path).stem not in algorithms():
        raise ConfigError(path, "is not named after an algorithm: choose one with --algo.")
    algo = algo or Path(path).stem
    check_choice("--algo", algo, algorithms())
    return algo


def _check(args: argparse.Namespace) -> int:
    from sb3_ext.zoo.config.check import check_file
    from sb3_ext.zoo.config.reader import ConfigError, Problem

    problems: list[Problem] = []
    for path in args.file:
        try:
            problems += check_file(path, _algo_of(path, args.algo), args.env, args.log_folder)
        except ConfigError as error:
            problems.append(error.problem)
    problems = list(dict.fromkeys(problems))  # an anchor's, from each section that uses it
    if args.json:
        print(json.dumps([problem._asdict() for problem in problems], indent=2))
    else:
        print(*problems, sep="\n", end="\n" * bool(problems))
    n_errors = sum(not problem.is_warning for problem in problems)
    if not args.json and not n_errors:
        print(f"{', '.join(args.file)}: no mistakes")
    return 2 if n_errors else 0


def _format(args: argparse.Namespace) -> int:
    from sb3_ext.runs.files import atomic_write
    from sb3_ext.zoo.config.check import section_keys
    from sb3_ext.zoo.config.format import format_file

    code = 0
    for path in args.file:
        formatted = format_file(path, section_keys(_algo_of(path, args.algo)))
        if formatted == Path(path).read_text(encoding="utf-8"):
            continue
        print(f"{path} {'is not formatted' if args.check else 'formatted'}")
        if args.check:
            code = 1
        else:
            with atomic_write(Path(path)) as unfinished:
                unfinished.write_text(formatted, encoding="utf-8")
    return code


def _show(args: argparse.Namespace) -> int:
    import gymnasium as gym

    from sb3_ext.common.names import nearest
    from sb3_ext.zoo.command_line import algorithms
    from sb3_ext.zoo.config.show import show_section, show_settings
    from sb3_ext.zoo.config.train_command import read_pairs

    algo = args.algorithm or args.algo or _DEFAULT_ALGO
    check_choice("--algo", algo, algorithms())
    if args.env not in gym.registry:
        raise UsageError(f"There is no environment {args.env!r}: {nearest(args.env, list(gym.registry))}")
    given: dict[str, Any] = {name: getattr(args, name) for name in ("storage", "study_name", "trial_id")}
    given |= {"config": args.conf_file, "hyperparams": read_pairs(args.hyperparams)}
    if args.yaml:
        print(show_section(algo, args.env, **given), end="")
        return 0
    settings = show_settings(algo, args.env, **given)
    if args.json:
        print(json.dumps([setting._asdict() for setting in settings], indent=2, default=str))
        return 0
    rows = [(setting.key, str(setting.value), setting.source) for setting in settings]
    widths = [max(len(row[column]) for row in rows) for column in (0, 1)]
    for key, value, source in rows:
        print(f"{key:{widths[0]}}  {value:{min(widths[1], 40)}}  {source}")
    return 0


def _schema(args: argparse.Namespace) -> int:
    from sb3_ext.zoo.command_line import algorithms
    from sb3_ext.zoo.config.editor_schema import editor_schema

    check_choice("--algo", args.algo, algorithms())
    text = json.dumps(editor_schema(args.algo), indent=2)
    if args.output is None:
        print(text)
    else:
        Path(args.output).write_text(f"{text}\n", encoding="utf-8")
        print(args.output)
    return 0
