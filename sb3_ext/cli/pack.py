"""``sb3-ext pack RUN``: a run folder as a zip, to share or to move; ``--unpack`` is the way back."""

import argparse
from pathlib import Path

from sb3_ext.cli.run_argument import add_run
from sb3_ext.common.clean_text import say
from sb3_ext.runs.find_run import find_run

__all__ = ["EPILOG", "add_arguments", "run"]

EPILOG = """examples:
  sb3-ext pack @last                                writes ppo_ext-CartPole-v1_1.zip, for instance
  sb3-ext pack logs/ppo_ext/Pong-v5_2 -o pong.zip --max-mb 50       leaves out the largest files
  sb3-ext pack --unpack pong.zip -f logs            puts it into logs/ppo_ext/, under a free number

Passwords in addresses are masked, and links to other places are left out. A zip that is unpacked may come from someone
else: it is checked first, and its models are still pickles, so only play runs from people you trust.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_run(parser)
    parser.add_argument("-o", "--output", metavar="FILE", help="zip to write (default: <algo>-<run>.zip)")
    parser.add_argument("--max-mb", type=float, default=2000, help="maximum size before compression (default: 2000)")
    parser.add_argument("--unpack", action="store_true", help="RUN is a zip: unpack it into the log folder")


def run(args: argparse.Namespace) -> int:
    from sb3_ext.runs.files import atomic_write
    from sb3_ext.runs.run_zip import unpack_run, zip_run

    if args.unpack:
        say(str(unpack_run(args.run, args.log_folder, args.max_mb)))
        return 0
    folder = find_run(args.run, args.log_folder).resolve()
    target = Path(args.output or f"{folder.parent.name}-{folder.name}.zip")
    with atomic_write(target) as unfinished:
        left_out = zip_run(folder, unfinished, args.max_mb)
    for name in left_out:
        say(f"Left out: {name}")
    say(f"{target}: {target.stat().st_size / 1e6:,.2f} MB")
    return 0
