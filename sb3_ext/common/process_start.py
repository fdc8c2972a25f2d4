"""One process start at a time, whoever starts it and however.

A fork inherits every open file. If another thread is inside ``Popen`` at that moment, the fork also keeps the pipe on
which ``Popen`` waits for its end, and ``Popen`` never returns. The same goes for a pipe that only the new process
should hold: its other end never learns that the process has died.
"""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

__all__ = ["starting_process"]

_lock = threading.RLock()
#: Seconds to wait for another start, which takes milliseconds
_TIMEOUT = 30.0
_INTERRUPTS = (signal.SIGINT, signal.SIGTERM, *([signal.SIGHUP] if hasattr(signal, "SIGHUP") else []))


@contextmanager
def starting_process() -> Iterator[None]:
    """
    Hold this from the creation of a process's pipes until only that process has its ends. Forks wait for it by
    themselves, those of other libraries included.

    :raises TimeoutError: when another start does not finish
    """
    if not _lock.acquire(timeout=_TIMEOUT):
        raise TimeoutError(f"another process has been starting for {_TIMEOUT:g} s")
    try:
        yield
    finally:
        _lock.release()


#: Signals that were blocked before a fork, by thread. An interrupt between the steps of a fork would be lost, and the
#: locks that logging takes around it would stay taken
_blocked = threading.local()


def _before_fork() -> None:
    _blocked.before = signal.pthread_sigmask(signal.SIG_BLOCK, _INTERRUPTS)
    _lock.acquire(timeout=_TIMEOUT)


def _unblock() -> None:
    signal.pthread_sigmask(signal.SIG_SETMASK, vars(_blocked).pop("before", ()))


def _after_fork() -> None:
    with suppress(RuntimeError):  # it was not ours to release: the wait timed out
        _lock.release()
    _unblock()


def _in_fork() -> None:
    global _lock
    _lock = threading.RLock()  # its owner may be a thread that the fork doesn't have
    _unblock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_in_fork)
