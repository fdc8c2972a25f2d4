"""A process that holds the lock of a study."""

import multiprocessing
import time
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path

from sb3_ext.tune.lock import study_lock

__all__ = ["holder_of"]

_FORK = multiprocessing.get_context("fork")


def holder_of(url: str | None, folder: Path) -> BaseProcess:
    receiver, sender = _FORK.Pipe(duplex=False)
    process = _FORK.Process(target=_hold, args=(url, folder, sender), daemon=True)
    process.start()
    receiver.recv()
    return process


def _hold(url: str | None, folder: Path, ready: Connection) -> None:
    with study_lock(url, folder, "small"):
        ready.send(True)
        time.sleep(600)
