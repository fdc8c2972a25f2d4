"""Runs the trainings of a study in processes of this machine."""

from __future__ import annotations

import signal
import subprocess
import time
from contextlib import nullcontext, suppress
from multiprocessing.connection import Pipe, wait
from pathlib import Path
from typing import Any

from sb3_ext.common.process_start import starting_process
from sb3_ext.runs.processes.child import start_python
from sb3_ext.tune.pool import Done, Event, Losses, Lost, Reached, Refused
from sb3_ext.zoo.trial_training import Curve, Point, TrialTraining

__all__ = ["LocalPool"]

#: Seconds that processes have to close their environments
_END_TIMEOUT = 1.0
#: Seconds between two checks that they are alive
_LOOK_EVERY = 1.0


class LocalPool:
    """
    A :class:`~sb3_ext.tune.pool.Pool` of processes. They start with the first trainings, stay for the next ones, and
    end with this process, whatever ends it. Ctrl-C does not reach them.

    :param size: number of processes
    :param log: file for their warnings and crashes; without one they are dropped
    """

    def __init__(self, size: int, log: Path | None = None) -> None:
        self.size = size
        self._log = log
        self._idle: list[_Worker] = []
        self._busy: dict[Any, _Worker] = {}
        self._losses = Losses()

    def submit(self, key: Any, training: TrialTraining) -> None:
        if len(self._busy) >= self.size or key in self._busy:
            raise ValueError(f"{key!r} is already running, or all {self.size} workers are busy.")
        while self._idle and not self._idle[-1].is_alive:
            self._idle.pop().end()
        worker = self._idle.pop() if self._idle else _Worker(self._log)
        self._busy[key] = worker
        worker.send(training)

    def answer(self, key: Any, go_on: bool) -> None:
        if key in self._busy:  # otherwise it is lost
            self._busy[key].send(go_on)

    def wait(self, timeout: float) -> list[Event]:
        end = time.monotonic() + timeout
        while True:
            keys: dict[Any, Any] = {worker.connection: key for key, worker in self._busy.items()}
            left = max(end - time.monotonic(), 0.0)
            ready = wait(list(keys), min(left, _LOOK_EVERY))
            # A process that a worker has started may keep the pipe open after it
            dead = [worker.connection for worker in self._busy.values() if not worker.is_alive]
            events = [self._read(keys[connection]) for connection in dict.fromkeys([*ready, *dead])]
            if events or left == 0:
                return events

    def _read(self, key: Any) -> Event:
        worker = self._busy[key]
        message = worker.receive()
        if isinstance(message, Point):
            return self._losses.see(Reached(key, message))
        del self._busy[key]
        if message is None:
            reason = worker.how_it_ended
            worker.end()
            return self._losses.see(Lost(key, reason))
        self._idle.append(worker)
        return self._losses.see(Done(key, message) if isinstance(message, Curve) else Refused(key, message))

    def stop(self, key: Any) -> None:
        self._losses.forget(key)
        worker = self._busy.pop(key, None)
        if worker is not None:
            worker.end()

    def close(self) -> None:
        workers = [*self._idle, *self._busy.values()]
        for worker in workers:
            worker.process.terminate()
        end = time.monotonic() + _END_TIMEOUT
        for worker in workers:
            worker.end(end - time.monotonic())
        self._idle, self._busy = [], {}


class _Worker:
    def __init__(self, log: Path | None) -> None:
        with nullcontext(subprocess.DEVNULL) if log is None else open(log, "ab") as stderr, starting_process():
            self.connection, theirs = Pipe()
            with theirs:
                self.process = start_python("sb3_ext.tune.worker", theirs.fileno(), stderr)

    @property
    def is_alive(self) -> bool:
        return self.process.poll() is None

    def send(self, message: Any) -> None:
        with suppress(OSError):  # it is gone, which the next wait() notices
            self.connection.send(message)

    def receive(self) -> Any:
        """``None`` if it is gone, and sends no more."""
        try:
            return self.connection.recv() if self.is_alive or self.connection.poll() else None
        except (EOFError, OSError):
            return None

    @property
    def how_it_ended(self) -> str:
        try:
            code = self.process.wait(_END_TIMEOUT)
        except subprocess.TimeoutExpired:
            return "its process closed the pipe"
        if code == -signal.SIGKILL:
            return "its process was killed (SIGKILL), perhaps because there was no memory left"
        return f"its process ended with {f'code {code}' if code >= 0 else signal.Signals(-code).name}"

    def end(self, patience: float = 0.0) -> None:
        """:param patience: seconds that it has to end by itself"""
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(max(patience, 0.0))
        self.process.kill()
        self.process.wait()
        self.connection.close()
