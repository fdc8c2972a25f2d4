"""SIGTERM and SIGHUP end a training as Ctrl-C does: with ``KeyboardInterrupt``, so that it saves what it has.

``docker stop`` and Slurm send SIGTERM, a closed terminal or SSH connection sends SIGHUP. Their default action ends a
process on the spot. Schedulers can send other signals some time before, such as SIGUSR1.
"""

import os
import signal
import threading
from collections.abc import Iterable
from contextlib import suppress
from traceback import walk_stack
from types import FrameType
from typing import Any, NoReturn
from weakref import ref

__all__ = ["catch_stop_signals", "raise_if_interrupted", "received_signal", "release_stop_signals"]

#: Windows has no SIGHUP
_SIGNALS = [signal.Signals[name] for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
#: These end the process when they come again. SIGHUP comes twice when a terminal closes: from shell and system
_FINAL = (signal.SIGTERM, signal.SIGINT)
_SHOW_CURSOR = b"\x1b[?25h"
#: Methods during which a signal is an interrupt; at other times it has its default action
_METHODS = ("learn", "save_trained_model")

#: The training that signals interrupt, the latest to start
_owner: ref[Any] | None = None
#: Signals whose action was changed, and what it was
_changed: dict[signal.Signals, Any] = {}
_pid = 0
_received: signal.Signals | None = None
#: Whether a training was interrupted that has not ended
_is_ending = False
_terminals: list[int] = []


def catch_stop_signals(owner: object, more: Iterable[str] = (), ctrl_c: bool = False) -> None:
    """
    Turn SIGTERM and SIGHUP into ``KeyboardInterrupt`` while ``learn`` runs. A signal that is ignored (``nohup``) or
    that has a handler of the program is left alone, and so are all of them outside the main thread.

    :param more: names of other signals to catch, such as ``USR1``
    :param ctrl_c: whether a second Ctrl-C ends the process at once, whatever it is doing
    """
    global _owner, _pid, _received, _is_ending
    if threading.current_thread() is not threading.main_thread():
        return
    _owner, _pid, _received, _is_ending = ref(owner), os.getpid(), None, False
    _terminals[:] = [number for number in (1, 2) if os.isatty(number)]
    wanted = [*_SIGNALS, *(signal.Signals[f"SIG{name}"] for name in more), *([signal.SIGINT] if ctrl_c else ())]
    for which in wanted:
        before = signal.getsignal(which)
        if before in (signal.SIG_DFL, signal.default_int_handler):
            signal.signal(which, _interrupt)
            _changed[which] = before


def release_stop_signals(owner: object) -> None:
    """Restore the default actions, unless another training has started since."""
    global _is_ending
    if _owner is not None and _owner() is owner and threading.current_thread() is threading.main_thread():
        for which, before in _changed.items():
            signal.signal(which, before)
        _changed.clear()
        _is_ending = False


def raise_if_interrupted() -> None:
    """Interrupt a training that goes on: Python drops what is raised while it forks or runs a finalizer."""
    if _is_ending and threading.current_thread() is threading.main_thread():
        raise KeyboardInterrupt(None if _received is None else _received.name)


def received_signal() -> signal.Signals | None:
    """:return: the signal that ended the latest training; ``None`` when none did, or when Ctrl-C was not caught"""
    return _received


def _interrupt(number: int, frame: FrameType | None) -> NoReturn:
    global _received, _is_ending
    which = signal.Signals(number)
    is_training = any(caller.f_code.co_name in _METHODS for caller, _ in walk_stack(frame))
    if os.getpid() != _pid or not is_training:
        # A fork of the training, or a training that nobody has ended
        signal.signal(which, _changed[which])
        signal.raise_signal(which)  # which does not return
    for caught in _changed:
        # Not by a handler, which would have to wait for code in C
        signal.signal(caught, signal.SIG_DFL if caught in _FINAL else signal.SIG_IGN)
    if which == signal.SIGHUP:
        _forget_terminal()
    for terminal in _terminals:
        with suppress(OSError):
            os.write(terminal, _SHOW_CURSOR)  # a live table hides it
    _received, _is_ending = which, True
    raise KeyboardInterrupt(which.name)


def _forget_terminal() -> None:
    """Whoever prints to a terminal that is gone gets an error, before the model is saved."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for number in _terminals:
        os.dup2(nowhere, number)
    os.close(nowhere)
