"""Options of RL Zoo's commands for a parser of ours, and a way to run these commands in this process.

RL Zoo builds its parsers inside the functions that train and play, after importing torch. So that ``--help`` and shell
completion answer at once, the options are read from its source.
"""

import argparse
import ast
import os
import sys
from collections.abc import Collection
from functools import cache
from importlib import import_module
from typing import Any, NamedTuple

from sb3_ext import _autoload
from sb3_ext.zoo.commands import show_mistakes
from sb3_ext.zoo.registry import ALGORITHMS
from sb3_ext.zoo.upstream import hyperparams_folder

__all__ = ["Option", "add_options", "algorithms", "is_our_command", "options_of", "run_command", "typed_words"]

#: Other types only change how RL Zoo itself reads a value
_TYPES = {"str": str, "int": int, "float": float}


_running = False


class Option(NamedTuple):
    """Arguments of ``add_argument``."""

    flags: tuple[str, ...]
    settings: dict[str, Any]

    @property
    def dest(self) -> str:
        return next(flag for flag in self.flags if flag.startswith("--"))[2:].replace("-", "_")


@cache
def options_of(command: str) -> tuple[Option, ...]:
    """:param command: a module of RL Zoo, such as ``train``"""
    calls = [
        node
        for node in ast.walk(_source(command))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "parser.add_argument"
    ]
    options = []
    for call in sorted(calls, key=lambda call: call.lineno):
        settings = {keyword.arg: _value(keyword.value) for keyword in call.keywords}
        flags = tuple(ast.literal_eval(flag) for flag in call.args)
        options.append(Option(flags, {str(name): value for name, value in settings.items() if value is not None}))
    return tuple(options)


@cache
def algorithms() -> tuple[str, ...]:
    """Values of ``--algo``, ours first."""
    (table,) = [
        node.value
        for node in _source("utils").body
        if isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == "ALGOS"
    ]
    assert isinstance(table, ast.Dict)
    return (*ALGORITHMS, *(ast.literal_eval(key) for key in table.keys if key is not None))


def add_options(parser: Any, command: str, without: Collection[str] = (), **defaults: str) -> None:
    """
    Add the options of a command. An option that is not typed has no value, so that its default is up to RL Zoo.

    :param parser: a parser or a group of one
    :param without: names of arguments to leave out
    :param defaults: what the help shows instead of RL Zoo's defaults
    """
    for option in options_of(command):
        if option.dest not in without:
            settings, default = option.settings, defaults.get(option.dest, option.settings.get("default"))
            help_text = settings["help"] if "efault" in settings["help"] else _help(settings, default)
            metavar = {"metavar": "ALGO"} if option.dest == "algo" else {}
            changed = {"default": argparse.SUPPRESS, "help": help_text.replace("%", "%%"), **metavar}
            parser.add_argument(*option.flags, **(settings | changed))


def _help(settings: dict[str, Any], default: Any) -> str:
    choices = f": {', '.join(settings['choices'])}" if "choices" in settings else ""
    return f"{settings['help']}{choices}" + ("" if default in (None, "", False, []) else f" (default: {default})")


def typed_words(command: str, args: argparse.Namespace) -> list[str]:
    """The words of a command line of RL Zoo, from what was typed on ours."""
    words: list[str] = []
    for option in options_of(command):
        if option.dest in args:
            value = getattr(args, option.dest)
            values = value if isinstance(value, list) else [] if value is True else [value]
            words += [option.flags[-1], *map(str, values)]
    return words


def run_command(command: str, words: list[str]) -> None:
    """Does what ``python -m rl_zoo3.<command> <words>`` does. A mistake is shown without a traceback."""
    _autoload.install()
    show_mistakes()
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())  # a config may name the user's modules
    global _running
    before = sys.argv
    sys.argv, _running = [f"rl_zoo3.{command}", *words], True
    try:
        getattr(import_module(f"rl_zoo3.{command}"), command)()
    finally:
        sys.argv, _running = before, False


def is_our_command() -> bool:
    """Whether RL Zoo's command was started by ours, which answers mistakes for stock algorithms too."""
    return _running


def _source(module: str) -> ast.Module:
    return ast.parse((hyperparams_folder().parent / f"{module}.py").read_text(encoding="utf-8"))


def _value(node: ast.expr) -> Any:
    if isinstance(node, ast.Name):
        return _TYPES.get(node.id)
    return algorithms() if "ALGOS" in ast.unparse(node) else ast.literal_eval(node)
