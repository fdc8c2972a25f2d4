"""Mends RL Zoo's commands: the child processes they start, and what they say about a mistyped ``--algo``."""

from __future__ import annotations

import atexit
import functools
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sb3_ext.common.names import nearest

__all__ = ["patch_child_commands", "suggest_algorithm"]


def patch_child_commands() -> None:
    """
    ``benchmark`` and ``record_training`` start ``python``, which may be another one when no environment is activated.
    ``benchmark`` starts ``enjoy.py``, which only a checkout of RL Zoo has. ``record_training`` takes the statistics of
    a checkpoint for one more checkpoint, and records its video twice.

    Both call ``subprocess.call`` as they run, so no name of theirs can be replaced. Calls from other modules are passed
    on as they are.
    """
    call = subprocess.call
    if hasattr(call, "__wrapped__"):
        return
    recorded: set[tuple[str, ...]] = set()

    @functools.wraps(call)
    def call_this_python(command: Any, *args: Any, **kwargs: Any) -> int:
        caller = sys._getframe(1).f_globals.get("__spec__")
        if getattr(caller, "name", None) not in ("rl_zoo3.benchmark", "rl_zoo3.record_training"):
            return call(command, *args, **kwargs)
        if command[:2] == ["python", "enjoy.py"] and not Path("enjoy.py").exists():
            command = ["python", "-m", "rl_zoo3.enjoy", *command[2:]]
        if command[:3] == ["python", "-m", "rl_zoo3.record_video"]:
            if tuple(command) in recorded:
                return 0
            recorded.add(tuple(command))
        if command[0] == "python":
            command = [sys.executable, *command[1:]]
        return call(command, *args, **kwargs)

    subprocess.call = call_this_python  # type: ignore[assignment]


def suggest_algorithm(argv: Sequence[str]) -> None:
    """
    RL Zoo answers an unknown ``--algo`` with the list of all algorithms. Say which one was probably meant.

    :param argv: the command line of this interpreter
    """
    from rl_zoo3.utils import ALGOS

    is_zoo_command = any(arg.startswith("rl_zoo3.") or Path(arg).name == "rl_zoo3" for arg in argv)
    given = _option_value(argv, "--algo")
    if is_zoo_command and given is not None and given not in ALGOS:
        # At exit, below the usage that RL Zoo prints
        atexit.register(print, f"There is no algorithm {given!r}: {nearest(given, ALGOS)}", file=sys.stderr)


def _option_value(argv: Sequence[str], option: str) -> str | None:
    for arg, following in zip(argv, [*argv[1:], None], strict=True):
        if arg == option:
            return following
        if arg.startswith(f"{option}="):
            return arg.removeprefix(f"{option}=")
    return None
