"""Which flags of ``rl_zoo3.train`` were typed: these override a file. RL Zoo's arguments have the defaults too."""

import argparse
import sys
from collections.abc import Mapping, MutableMapping
from typing import Any, TypeVar

__all__ = ["fold_ext", "typed_flags"]

Section = TypeVar("Section", bound=MutableMapping[str, Any])

_FLAGS = {"--eval-freq": int, "--eval-episodes": int, "--n-eval-envs": int, "--save-freq": int, "--vec-env": str}


def typed_flags(args: argparse.Namespace) -> dict[str, Any]:
    """Typed flags that a file can set too, by argument; only ``track`` without RL Zoo's command line."""
    track = {"track": getattr(args, "track", False)}
    if not hasattr(args, "eval_episodes"):
        return track
    parser = argparse.ArgumentParser(add_help=False, argument_default=argparse.SUPPRESS)
    for flag, kind in _FLAGS.items():
        parser.add_argument(flag, type=kind)
    return track | vars(parser.parse_known_args(sys.argv[1:])[0])


def fold_ext(section: Section) -> Section:
    """``-params ext.evaluation.every:5000`` changes one key under ``ext:`` and leaves the others as they are."""
    for name in [name for name in section if str(name).startswith("ext.")]:
        value = section.pop(name)
        *above, last = name.split(".")
        place: MutableMapping[str, Any] = section
        for key in above:
            before = place.get(key)
            place[key] = place = dict(before) if isinstance(before, Mapping) else {}
        place[last] = value
    return section
