"""SIGTERM and SIGHUP end a training as Ctrl-C does: with ``KeyboardInterrupt``, so that it saves what it has.

``docker stop`` and Slurm send SIGTERM, a closed terminal or SSH connection sends SIGHUP. Their default action ends a
process on the spot.
"""

import os
import signal
import threading
from traceback import walk_stack
from types import FrameType
from typing import Any, NoReturn
from weakref import ref

__all__ = ["catch_stop_signals", "received_signal", "release_stop_signals"]

#: Windows has no SIGHUP
_SIGNALS = [signal.Signals[name] for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
#: Methods during which a signal is an interrupt; at other times it has its default action
_METHODS = ("learn", "save_trained_model")

#: The training that signals interrupt, the latest to start
_owner: ref[Any] | None = None
#: Signals whose action was changed
_changed: set[signal.Signals] = set()
_pid = 0
_received: signal.Signals | None = None
_terminals: list[int] = []


def catch_stop_signals(owner: object) -> None:
    """
    Turn SIGTERM and SIGHUP into ``KeyboardInterrupt`` while ``learn`` runs. A signal that is ignored (``nohup``) or
    that has a handler of the program is left alone, and so are all of them outside the main thread.
    """
    global _owner, _pid, _received
    if threading.current_thread() is not threading.main_thread():
        return
    _owner, _pid, _received = ref(owner), os.getpid(), None
    _terminals[:] = [number for number in (1, 2) if os.isatty(number)]
    for which in _SIGNALS:
        if signal.getsignal(which) is signal.SIG_DFL:
            signal.signal(which, _interrupt)
            _changed.add(which)


def release_stop_signals(owner: object) -> None:
    """Restore the default actions, unless another training has started since."""
    if _owner is not None and _owner() is owner and threading.current_thread() is threading.main_thread():
        for which in _changed:
            signal.signal(which, signal.SIG_DFL)
        _changed.clear()


def received_signal() -> signal.Signals | None:
    """:return: the signal that ended the latest training; ``None`` when none did"""
    return _received


def _interrupt(number: int, frame: FrameType | None) -> NoReturn:
    global _received
    is_training = any(caller.f_code.co_name in _METHODS for caller, _ in walk_stack(frame))
    if os.getpid() != _pid or not is_training:
        # A fork of the training, or a training that nobody has ended
        signal.signal(number, signal.SIG_DFL)
        signal.raise_signal(number)  # which does not return
    _received = signal.Signals(number)
    for which in _changed:
        # A second SIGTERM ends the process at once. SIGHUP comes twice when a terminal closes: from shell and system
        signal.signal(which, signal.SIG_DFL if which == signal.SIGTERM else signal.SIG_IGN)
    if number != signal.SIGTERM:
        _forget_terminal()
    raise KeyboardInterrupt(_received.name)


def _forget_terminal() -> None:
    """Whoever prints to a terminal that is gone gets an error, before the model is saved."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for number in _terminals:
        os.dup2(nowhere, number)
    os.close(nowhere)
