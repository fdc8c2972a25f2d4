"""How subcommands are told a run, and the folder with all of them."""

import argparse

from sb3_ext.runs.registry import LOG_FOLDER

__all__ = ["add_log_folder", "add_run"]

_NAMES = (
    "path, algo/env_number, id or the start of one of them; @last; @best or @best:ENV (the highest score); "
    "wandb:entity/project/id"
)


def add_run(parser: argparse.ArgumentParser, nargs: str | None = None) -> None:
    """For :func:`~sb3_ext.runs.find_run.find_run`."""
    parser.add_argument("run", metavar="RUN", nargs=nargs, help=_NAMES)
    add_log_folder(parser)


def add_log_folder(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-f", "--log-folder", default=LOG_FOLDER, help=f"folder of the runs (default: {LOG_FOLDER})")
