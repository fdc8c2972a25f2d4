"""``sb3-ext envs``: lists environments, their spaces and the algorithms with hyperparameters for them."""

from __future__ import annotations

import argparse
import json
import sys
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sb3_ext.zoo.env_catalogue import EnvEntry
    from sb3_ext.zoo.env_spaces import EnvSpaces

__all__ = ["EPILOG", "add_arguments", "run"]

#: Spaces of more environments are shown only with --spaces
_FEW = 40
#: The JSON has the whole explanation
_PROBLEM_WIDTH = 60
EPILOG = f"""examples:
  sb3-ext envs                        all ids
  sb3-ext envs lander                 ids that contain "lander", with their spaces
  sb3-ext envs mountain cont          ids that contain both words
  sb3-ext envs 'ALE/*-v5'             a pattern for the whole id
  sb3-ext envs cartpoel               no match: shows the nearest ids
  sb3-ext envs --algo reinforce       ids with tuned hyperparameters for an algorithm
  sb3-ext envs --ours --no-spaces     the ids of sb3-ext, without creating the environments
  sb3-ext envs pong --json            for programs

To find its spaces, an environment has to be created. Up to {_FEW} are; --spaces creates more.
"tuned" lists the algorithms (--algo of rl_zoo3.train) with hyperparameters for the environment, sb3-ext's first, then
RL Zoo's; "atari:" are those for all Atari games.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("pattern", metavar="PATTERN", nargs="*", help="words that the id contains, or nearly")
    parser.add_argument("--algo", help="only environments that this algorithm has tuned hyperparameters for")
    parser.add_argument("--ours", action="store_true", help="only the ids that sb3-ext registers")
    parser.add_argument(
        "--spaces", action=argparse.BooleanOptionalAction, help=f"show spaces (default: of up to {_FEW} environments)"
    )
    parser.add_argument("--gym-packages", nargs="+", default=[], metavar="PACKAGE", help="import these too")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(args: argparse.Namespace) -> int:
    # The help needs no Gymnasium
    from sb3_ext.zoo.env_catalogue import import_packages, list_environments, search, tuned_for

    for problem in import_packages(args.gym_packages):
        print(f"sb3-ext: {problem}", file=sys.stderr)
    pattern, notes = " ".join(args.pattern), []
    entries = [entry for entry in list_environments() if entry.ours or not args.ours]
    if args.algo is not None:
        entries, own = tuned_for(args.algo, entries)
        if len(own) < len(entries) and not args.pattern and not args.json:
            # Hundreds of them share one section and would hide the others
            notes.append(f"And {len(entries) - len(own)} Atari ids with the section `atari`: search for one by name.")
            entries = own
    entries, has_words = search(entries, args.pattern)
    if not entries:
        print(f"No environment{' of these' * (args.ours or bool(args.algo))} matches {pattern!r}.", file=sys.stderr)
        return 1
    if not has_words:
        print(f"No id contains {pattern!r}. The nearest:", file=sys.stderr)
    with_spaces = args.spaces if args.spaces is not None else len(entries) <= _FEW
    found = _find_spaces(entries, args.gym_packages) if with_spaces else None
    if args.json:
        known = found or {}
        listed = [entry.as_dict(known[entry.env_id]._asdict() if known else None) for entry in entries]
        print(json.dumps(listed, indent=2))
        return 0
    _print(entries, found)
    if args.spaces is None and found is None:
        notes.append(f"{len(entries)} environments. Spaces are shown for up to {_FEW}: search, or add --spaces.")
    if notes:
        print("", *notes, sep="\n")
    return 0


def _find_spaces(entries: Sequence[EnvEntry], packages: Sequence[str]) -> dict[str, EnvSpaces]:
    from sb3_ext.zoo.env_spaces import find_spaces

    env_ids = [entry.env_id for entry in entries]
    found = {}
    for number, (env_id, spaces) in enumerate(zip(env_ids, find_spaces(env_ids, packages), strict=True), 1):
        found[env_id] = spaces
        if sys.stderr.isatty():
            print(f"\r\x1b[K{number} of {len(env_ids)}: {env_id}", end="", file=sys.stderr, flush=True)
    if sys.stderr.isatty():
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)
    return found


def _print(entries: Sequence[EnvEntry], found: dict[str, EnvSpaces] | None) -> None:
    header = ["id", *(["observation", "action"] if found is not None else []), "threshold", "max steps", "tuned"]
    rows = [_cells(entry, found) for entry in entries]
    if sys.stdout.isatty():
        _print_table(header, rows)
        return
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    for row in (header, *rows):
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def _cells(entry: EnvEntry, found: dict[str, EnvSpaces] | None) -> list[str]:
    cells = [entry.env_id]
    if found is not None:
        spaces = found[entry.env_id]
        cells += [textwrap.shorten(spaces.problem, _PROBLEM_WIDTH) or spaces.observation, spaces.action]
    cells += ["" if number is None else f"{number:g}" for number in (entry.threshold, entry.max_steps)]
    own = [algo for algo, section in entry.tuned.items() if section == entry.env_id]
    shared = [algo for algo in entry.tuned if algo not in own]
    return [*cells, " ".join([*own, *(["atari:", *shared] if shared else [])])]


def _print_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in header:
        is_number = name in ("threshold", "max steps")
        table.add_column(name, justify="right" if is_number else "left", no_wrap=name == "id" or is_number)
    for row in rows:
        table.add_row(*row)
    Console(markup=False, highlight=False).print(table)
