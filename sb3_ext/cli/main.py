"""Reads the command line of ``sb3-ext`` and runs a subcommand, whose module is imported only then."""

import argparse
import io
import os
import re
import signal
import sys
import traceback
import warnings
from collections.abc import Sequence
from importlib import import_module
from types import ModuleType
from typing import NoReturn

from sb3_ext import __version__
from sb3_ext.common.clean_text import mask_passwords, printable
from sb3_ext.common.names import nearest, suggestion
from sb3_ext.common.usage_error import UsageError, wants_traceback

__all__ = ["COMMANDS", "CommandParser", "main", "make_parser"]

_DESCRIPTION = "Trains agents with RL Zoo and Stable-Baselines3, and works with the runs that trainings leave behind."
_EPILOG = """exit codes:
  0  done        1  nothing in the list matches, or the command failed
  2  a mistake in the command line, a config or a file, or a run that does not exist
  130  Ctrl-C    128 + n  ended by signal n (143: SIGTERM)

--debug, anywhere on the command line, shows the traceback of a mistake. docs/command_line.md has an example for each
command.
"""
#: Subcommands, each in the module of its name, and their line of the help
COMMANDS = {
    "train": "train an agent: all options of RL Zoo's train, and ours",
    "resume": "continue a training that was interrupted or killed, exactly; or train it further",
    "runs": "list the runs of a log folder, or compare them over seeds",
    "show": "show what is known of a run, its files, and what to do next with it",
    "enjoy": "play the agent of a run, in a window or as a video; all options of RL Zoo's enjoy",
    "inspect": "open a page that shows a run: episodes frame by frame, curves, alerts, a playground",
    "play": "watch the agent of a run or random actions, or play yourself; in a window or as text",
    "video": "film the agent of a run in 1080p, or its training progress; GIFs for READMEs",
    "plot": "draw the curves of runs as PNG or SVG, with seeds of the same training as one curve",
    "report": "write or print the report of a training: score, curves as text, alerts, what to try next",
    "publish": "put an agent, its report and its card on the Hugging Face Hub",
    "export": "write the policy of a run as ONNX or TorchScript, with its preprocessing, checked against predict",
    "review": "ask a language model what is wrong with a run and what to change, or print the prompt for it",
    "pack": "zip a run to share it, or unpack one",
    "clean": "find and delete what trainings left behind: failed and empty runs, old checkpoints",
    "tune": "find better hyperparameters with Optuna, judged on several seeds and checked on fresh ones",
    "config": "check, format and show hyperparameter files; a JSON schema of them for editors",
    "envs": "list environments with their spaces, thresholds and tuned algorithms; fuzzy search",
    "bench": "find the number and kind of environments that train fastest on this machine",
    "mcp": "serve the Model Context Protocol: a language model trains agents and looks into runs",
    "completion": "print a script that completes commands, options, runs and environments in your shell",
}
#: They run the user's code, whose errors are no mistakes in a command line
_RUN_CODE = ("train", "resume", "enjoy", "play", "video", "export", "publish", "tune")


#: They show windows or draw frames, and SDL would take SIGTERM for the closing of a window
_DRAW = ("enjoy", "inspect", "play", "video", "publish")


class CommandParser(argparse.ArgumentParser):
    """Answers a mistake in two lines, with the nearest valid name. RL Zoo's usage alone has thirty."""

    def error(self, message: str) -> NoReturn:
        choice = re.search(r"invalid choice: '(.*)' \(choose from (.*)\)$", message)
        unknown = re.search(r"unrecognized arguments: (--[^ =]+)", message)
        if choice is not None:
            message += suggestion(choice[1], re.findall(r"'([^']*)'", choice[2])).removesuffix(".")
        elif unknown is not None:
            message += suggestion(unknown[1], list(self._option_string_actions)).removesuffix(".")
        self.exit(2, f"{self.prog}: {printable(message)}\n`{self.prog} --help` explains the options.\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line, by default that of this process, and return the exit code."""
    given = sys.argv[1:] if arguments is None else arguments
    words = [word for word in given if word != "--debug"]
    command = words[0] if words and not words[0].startswith("-") else None
    _prepare_streams()
    if arguments is None:
        _prepare_process(command)
    try:
        if command is None:
            parser = _top_parser()
            parser.parse_args(words)
            parser.print_help()
            return 0
        module = _module_of(command)
        code = module.run(make_parser(command, module).parse_args(words[1:]))
        sys.stdout.flush()
        return code or 0
    except BrokenPipeError:
        # `sb3-ext envs | head` has seen enough; Python would complain when it flushes at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (ValueError, TypeError, OSError) as error:
        if command in _RUN_CODE and not isinstance(error, UsageError):
            raise
        if "--debug" in given or wants_traceback():
            traceback.print_exc()
        print(f"sb3-ext: {printable(mask_passwords(str(error)))}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("sb3-ext: interrupted", file=sys.stderr)
        return 130


def _prepare_streams() -> None:
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without ± still gets the rest


def _prepare_process(command: str | None) -> None:
    warnings.formatwarning = _format_warning
    if command in _DRAW:
        signal.signal(signal.SIGTERM, _end)


def _end(number: int, frame: object) -> NoReturn:
    """Unfinished files are removed on the way out, as after Ctrl-C."""
    raise SystemExit(128 + number)


def _format_warning(
    message: Warning | str, category: type[Warning], filename: str, lineno: int, line: str | None = None
) -> str:
    """Ours in one line: where it is raised in our code helps nobody."""
    place = "" if f"{os.sep}sb3_ext{os.sep}" in filename else f"{filename}:{lineno}: {category.__name__}: "
    return f"sb3-ext: {place}{printable(str(message))}\n"


def make_parser(command: str, module: ModuleType) -> CommandParser:
    """The parser of a subcommand."""
    summary = COMMANDS[command]
    parser = CommandParser(
        prog=f"sb3-ext {command}",
        description=f"{summary[0].upper()}{summary[1:]}.",
        epilog=module.EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    module.add_arguments(parser)
    return parser


def _module_of(command: str) -> ModuleType:
    if command not in COMMANDS:
        _top_parser().error(f"there is no command {command!r}: {nearest(command, COMMANDS)}")
    return import_module(f"sb3_ext.cli.{command}")


def _top_parser() -> CommandParser:
    parser = CommandParser(
        prog="sb3-ext",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"sb3-ext {__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", title="commands")
    for name, summary in COMMANDS.items():
        commands.add_parser(name, help=summary)
    return parser
