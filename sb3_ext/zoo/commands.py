"""Patches RL Zoo's commands: the child processes they start, and how they answer a mistake."""

import atexit
import functools
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sb3_ext.common.clean_text import mask_passwords, printable
from sb3_ext.common.names import nearest
from sb3_ext.common.usage_error import UsageError, wants_traceback
from sb3_ext.zoo.registry import ALGORITHMS

__all__ = ["algo_flag", "patch_child_commands", "patch_excepthook", "show_mistakes", "suggest_algorithm"]


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
    """RL Zoo answers an unknown ``--algo`` with the list of all algorithms. Say which one was probably meant."""
    from rl_zoo3.utils import ALGOS

    given = _algo_of_command(argv)
    if (
        given is not None and given not in ALGOS and not {"rl_zoo3.train", "train"} & set(argv)
    ):  # its parser says so itself
        # At exit, below the usage that RL Zoo prints
        atexit.register(print, f"There is no algorithm {given!r}: {nearest(given, ALGOS)}", file=sys.stderr)


def patch_excepthook(argv: Sequence[str]) -> None:
    """
    RL Zoo's commands answer a missing file, run or W&B login with a traceback. With our algorithms they end with a
    message and exit code 2.
    """
    if _algo_of_command(argv) in ALGORITHMS:
        show_mistakes()


def show_mistakes() -> None:
    """Show a mistake of the user without a traceback, unless SB3_EXT_DEBUG is set."""
    show_traceback = sys.excepthook
    if hasattr(show_traceback, "__wrapped__"):
        return

    @functools.wraps(show_traceback)
    def show(kind: type[BaseException], error: BaseException, traceback: Any) -> None:
        text = str(error)
        if kind.__module__.startswith("wandb.errors"):
            # Raised by RL Zoo's --track
            text = f"W&B: {text}\nLog in with `wandb login`, or set WANDB_MODE=offline to keep the run on this machine."
        elif not isinstance(error, UsageError):
            show_traceback(kind, error, traceback)
            return
        if wants_traceback():
            show_traceback(kind, error, traceback)
        else:
            print(printable(mask_passwords(text)), file=sys.stderr)
        raise SystemExit(2)

    sys.excepthook = show


def _algo_of_command(argv: Sequence[str]) -> str | None:
    """``--algo``, if this is one of RL Zoo's commands."""
    is_zoo = any(arg.startswith("rl_zoo3.") or Path(arg).name == "rl_zoo3" for arg in argv)
    return algo_flag(argv) if is_zoo else None


def algo_flag(argv: Sequence[str]) -> str | None:
    """``--algo`` of a command line."""
    for arg, following in zip(argv, [*argv[1:], None], strict=True):
        if arg == "--algo":
            return following
        if arg.startswith("--algo="):
            return arg.removeprefix("--algo=")
    return None
