"""Which flags of ``rl_zoo3.train`` were typed: these override a file. RL Zoo's arguments alone don't tell, as all flags
have defaults.
"""

import argparse
import sys
from typing import Any

__all__ = ["typed_flags"]

_FLAGS = {"--eval-freq": int, "--eval-episodes": int, "--save-freq": int, "--vec-env": str}


def typed_flags(args: argparse.Namespace) -> dict[str, Any]:
    """
    :return: values of the flags that were typed and that a file can set too, by the name of the argument; only
        ``track`` when the arguments are not from RL Zoo's command line
    """
    track = {"track": getattr(args, "track", False)}
    if not hasattr(args, "eval_episodes"):
        return track
    parser = argparse.ArgumentParser(add_help=False, argument_default=argparse.SUPPRESS)
    for flag, kind in _FLAGS.items():
        parser.add_argument(flag, type=kind)
    return track | vars(parser.parse_known_args(sys.argv[1:])[0])
