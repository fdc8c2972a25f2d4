"""Reads the command line of ``sb3-ext``."""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Sequence

from sb3_ext import __version__
from sb3_ext.cli import bench, envs, report
from sb3_ext.common.clean_text import mask_passwords, printable

__all__ = ["main"]

_DESCRIPTION = "Tools beside RL Zoo's commands. Training stays `python -m rl_zoo3.train --algo ppo_ext --env ENV`."


def main(arguments: Sequence[str] | None = None) -> int:
    """
    :param arguments: the command line without the program's name; that of this process by default
    :return: exit code
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without ± still gets the rest
    parser = argparse.ArgumentParser(prog="sb3-ext", description=_DESCRIPTION)
    parser.add_argument("--version", action="version", version=f"sb3-ext {__version__}")
    subparsers = parser.add_subparsers(metavar="COMMAND")
    for command in (bench, envs, report):
        command.add_parser(subparsers)
    parser.set_defaults(run=lambda args: parser.print_help())
    args = parser.parse_args(arguments)
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
