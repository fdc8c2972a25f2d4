"""Reads the command line of ``sb3-ext`` and runs a subcommand, whose module is imported only then."""

import argparse
import io
import os
import sys
from collections.abc import Sequence
from importlib import import_module

from sb3_ext import __version__
from sb3_ext.common.clean_text import mask_passwords, printable
from sb3_ext.common.names import nearest

__all__ = ["main"]

_DESCRIPTION = (
    "Tools that complement RL Zoo's commands. To train, use `python -m rl_zoo3.train --algo ppo_ext --env ENV`."
)
#: Subcommands, each in the module of its name, and their line of the help
COMMANDS = {
    "bench": "find the number and kind of environments that train fastest on this machine",
    "envs": "list environments with their spaces, thresholds and tuned algorithms; fuzzy search",
    "report": "write or print the report of a training: score, curves as text, alerts, what to try next",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line, by default that of this process, and return the exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without ± still gets the rest
    arguments = sys.argv[1:] if arguments is None else arguments
    args = _make_parser(next((arg for arg in arguments if not arg.startswith("-")), None)).parse_args(arguments)
    try:
        code = args.run(args)
        sys.stdout.flush()
        return code or 0
    except BrokenPipeError:
        # `sb3-ext envs | head` has seen enough; Python would complain when it flushes at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (ValueError, TypeError, OSError) as error:
        print(f"sb3-ext: {printable(mask_passwords(str(error)))}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("sb3-ext: interrupted", file=sys.stderr)
        return 130


def _make_parser(command: str | None) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="sb3-ext", description=_DESCRIPTION)
    parser.add_argument("--version", action="version", version=f"sb3-ext {__version__}")
    parser.set_defaults(run=lambda args: parser.print_help())
    subparsers = parser.add_subparsers(metavar="COMMAND")
    for name, summary in COMMANDS.items():
        subparser = subparsers.add_parser(name, help=summary)
        if name == command:
            module = import_module(f"sb3_ext.cli.{name}")
            subparser.description = f"{summary[0].upper()}{summary[1:]}."
            subparser.epilog = module.EPILOG
            subparser.formatter_class = argparse.RawDescriptionHelpFormatter
            module.add_arguments(subparser)
            subparser.set_defaults(run=module.run)
    if command is not None and command not in COMMANDS:
        parser.error(f"there is no command {command!r}: {nearest(command, COMMANDS)}")
    return parser
