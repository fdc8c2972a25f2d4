"""What RL Zoo's commands lack: children that run this Python, and a hint for a mistyped ``--algo``."""

from __future__ import annotations

import atexit
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sb3_ext.common.names import nearest

__all__ = ["run_children_with_this_python", "suggest_algorithm"]


def run_children_with_this_python() -> None:
    """
    ``benchmark`` and ``record_training`` start ``python``, which is another one where an environment is not activated;
    and ``benchmark`` starts ``enjoy.py``, which is there only in a checkout of RL Zoo.
    """
    if not any(arg in ("rl_zoo3.benchmark", "rl_zoo3.record_training") for arg in sys.orig_argv):
        return
    call = subprocess.call
    filmed: set[tuple[str, ...]] = set()

    def call_this_python(command: Any, *args: Any, **kwargs: Any) -> int:
        if isinstance(command, list) and command[:1] == ["python"]:
            command = [sys.executable, *command[1:]]
            if command[1:2] == ["enjoy.py"] and not Path("enjoy.py").exists():
                command[1:2] = ["-m", "rl_zoo3.enjoy"]
            if "rl_zoo3.record_video" in command:
                # record_training takes the statistics of a checkpoint for one more checkpoint
                if tuple(command) in filmed:
                    return 0
                filmed.add(tuple(command))
        return call(command, *args, **kwargs)

    subprocess.call = call_this_python  # type: ignore[assignment]


def suggest_algorithm(argv: Sequence[str]) -> None:
    """
    RL Zoo answers an unknown ``--algo`` with the list of all; say which one was meant.

    :param argv: the command line of this interpreter
    """
    from rl_zoo3.utils import ALGOS

    is_zoo_command = any(arg.startswith("rl_zoo3.") or Path(arg).name == "rl_zoo3" for arg in argv)
    given = _option_value(argv, "--algo")
    if is_zoo_command and given is not None and given not in ALGOS:
        # At exit, so that it stands below the usage that RL Zoo prints
        hint = f"There is no algorithm {given!r}: {nearest(given, ALGOS)}"
        atexit.register(print, hint, file=sys.stderr)


def _option_value(argv: Sequence[str], option: str) -> str | None:
    for arg, following in zip(argv, [*argv[1:], None], strict=True):
        if arg == option:
            return following
        if arg.startswith(f"{option}="):
            return arg.removeprefix(f"{option}=")
    return None
