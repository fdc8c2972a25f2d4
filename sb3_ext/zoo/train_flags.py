"""Which flags of ``rl_zoo3.train`` were typed: these override a file. RL Zoo's arguments have the defaults too."""

import argparse
import sys
from typing import Any

__all__ = ["typed_flags"]

_FLAGS = {"--eval-freq": int, "--eval-episodes": int, "--save-freq": int, "--vec-env": str}


def typed_flags(args: argparse.Namespace) -> dict[str, Any]:
    """Typed flags that a file can set too, by argument; only ``track`` without RL Zoo's command line."""
    track = {"track": getattr(args, "track", False)}
    if not hasattr(args, "eval_episodes"):
        return track
    parser = argparse.ArgumentParser(add_help=False, argument_default=argparse.SUPPRESS)
    for flag, kind in _FLAGS.items():
        parser.add_argument(flag, type=kind)
    return track | vars(parser.parse_known_args(sys.argv[1:])[0])
