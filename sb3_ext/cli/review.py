"""``sb3-ext review RUN``: asks a language model, by any program, what to make of a run; or prints the prompt."""

import argparse
import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

from sb3_ext.cli.run_argument import add_run
from sb3_ext.cli.whole_number import whole_number
from sb3_ext.common.clean_text import mask_passwords, printable
from sb3_ext.common.usage_error import UsageError
from sb3_ext.runs.find_run import find_run
from sb3_ext.runs.registry import Registry
from sb3_ext.runs.report.prompts import prompt_names, read_prompt

if TYPE_CHECKING:
    from sb3_ext.runs.record import RunRecord

__all__ = ["EPILOG", "add_arguments", "run"]

EPILOG = """examples:
  sb3-ext review @last --llm-command "llm -m MODEL"          what is wrong, and what to change; writes review.md
  sb3-ext review @last --prompt next_experiment --llm-command "ollama run MODEL"
  sb3-ext review @last --prompt my_questions.md --llm-command "llm -m MODEL"
  sb3-ext review @last | less                                without a program: prints the prompt, to read or to pipe
  sb3-ext review --last 20 --prompt maintenance --llm-command "llm -m MODEL"     over the newest 20 runs, for a cron job

The model gets the report of the run, what changed since its parent or the previous run, and the config. Its provider
sees them. docs/review.md says what is sent.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_run(parser, nargs="?")
    parser.add_argument("--last", type=whole_number, metavar="N", help="the newest N runs instead of one")
    parser.add_argument(
        "--prompt",
        metavar="NAME|FILE",
        help=f"{', '.join(prompt_names())}, or a text file (default: review; maintenance with --last)",
    )
    parser.add_argument(
        "--llm-command", metavar="COMMAND", help="reads a prompt on standard input, answers in Markdown"
    )
    parser.add_argument(
        "--llm-timeout", type=float, default=300.0, metavar="SECONDS", help="for an answer (default: 300)"
    )


def run(args: argparse.Namespace) -> int:
    from sb3_ext.runs.record import read_record  # the help needs no NumPy
    from sb3_ext.runs.report.review import make_prompt, write_review
    from sb3_ext.tune.llm_command import ask_program

    if (args.run is None) == (args.last is None):
        raise UsageError("Name one run, or several with --last: sb3-ext review @last; sb3-ext review --last 10")
    name, folder = args.prompt or ("maintenance" if args.last else "review"), Path(args.log_folder)
    instructions = read_prompt(name)
    runs = _last(folder, args.last) if args.last else [read_record(find_run(args.run, folder))]
    prompt = make_prompt(instructions, runs, folder)
    if args.llm_command is None:
        print(prompt, end="")
        return 0
    answer = ask_program(args.llm_command, prompt, args.llm_timeout)
    print(printable(mask_passwords(answer)).strip(), flush=True)  # first, in case the file can't be written
    print(write_review(folder if args.last else runs[0].folder, answer, name, args.llm_command, runs), file=sys.stderr)
    return 0


def _last(folder: Path, count: int) -> list["RunRecord"]:
    """The newest runs that can be read."""
    from sb3_ext.runs.record import read_record
    from sb3_ext.runs.report.review import MAX_RUNS

    if count > MAX_RUNS:
        raise UsageError(f"--last {count}: at most {MAX_RUNS} runs fit into a prompt.")
    runs = []
    for entry in Registry(folder).entries()[:count]:
        try:
            runs.append(read_record(folder / entry["folder"]))
        except ValueError as error:
            warnings.warn(f"Left out: {error}", stacklevel=2)
    if not runs:
        raise UsageError(f"{folder} has no runs. For another log folder: -f FOLDER")
    return runs
