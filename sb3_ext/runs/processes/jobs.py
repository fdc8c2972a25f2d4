"""A queue of jobs that a second process runs one after the other, so that training does not wait for them."""

import threading
import weakref
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Any

import cloudpickle  # type: ignore[import-untyped]

from sb3_ext.common.process_start import starting_process
from sb3_ext.runs.processes.child import ChildProcess, Outcome

__all__ = ["JobQueue", "Outcome"]


class JobQueue:
    """
    Runs jobs one after the other in a process that starts with the first job and is replaced when it dies. Only
    :meth:`wait` and :meth:`next_outcome` wait for it.

    :param max_waiting: how many jobs may wait; one more drops the oldest. A job replaces a waiting job with its key
    """

    def __init__(self, max_waiting: int = 3, name: str = "process") -> None:
        self._max_waiting = max_waiting
        self._name = name
        self._waiting: OrderedDict[str, bytes] = OrderedDict()
        self._outcomes: deque[Outcome] = deque()
        self._changed = threading.Condition()
        self._is_working = False
        self._n_closed = 0
        self._thread: threading.Thread | None = None
        self._child: ChildProcess | None = None
        self.n_dropped = 0

    @property
    def is_busy(self) -> bool:
        """Whether there are unfinished jobs."""
        # In this order: a job that starts in between is seen as waiting or as started
        return bool(self._waiting) or self._is_working

    @property
    def has_outcome(self) -> bool:
        return bool(self._outcomes)

    def start(self) -> ChildProcess:
        """:return: the process, started if necessary; an ``OSError`` says that it can't be"""
        with starting_process():
            if self._child is None or self._child.is_closed:
                self._child = ChildProcess(self, self._name)
            return self._child

    def submit(self, key: str, function: Callable[..., Any], *args: Any) -> None:
        """Call ``function`` with ``args`` in the process. With an empty key, there is an outcome only if it fails."""
        job = cloudpickle.dumps((function, args))
        with self._changed:
            self._waiting.pop(key, None)
            self._waiting[key] = job
            while len(self._waiting) > self._max_waiting:
                self._waiting.popitem(last=False)
                self.n_dropped += 1
            if self._thread is None:
                self._thread = threading.Thread(target=_work, args=(weakref.ref(self),), daemon=True)
                self._thread.start()

    def outcomes(self) -> list[Outcome]:
        """:return: the outcomes of jobs that have ended since the last call"""
        return [self._outcomes.popleft() for _ in range(len(self._outcomes))]

    def next_outcome(self, seconds: float | None) -> Outcome | None:
        """:return: the earliest outcome; ``None`` when there is none after ``seconds`` (``None``: wait for ever)"""
        with self._changed:
            self._changed.wait_for(lambda: self._outcomes, seconds)
            return self._outcomes.popleft() if self._outcomes else None

    def wait(self, seconds: float) -> bool:
        """:return: whether all jobs are done within ``seconds``"""
        with self._changed:
            return self._changed.wait_for(lambda: not self.is_busy, seconds)

    def close(self) -> None:
        """End the process, whatever it is doing. A new job starts another one."""
        with self._changed:
            self._waiting.clear()
            self._n_closed += 1
            child, thread = self._child, self._thread
        if child is not None:
            child.close()
        if thread is not None:
            thread.join(1.0)  # it sees the end of the process

    def _next_job(self) -> tuple[ChildProcess, str, bytes] | None:
        while True:
            with self._changed:
                if not self._waiting:
                    self._thread = None
                    return None
                self._is_working = True
                key, job = self._waiting.popitem(last=False)
                n_closed = self._n_closed
            # Without the lock: training may submit a job meanwhile and must not wait
            try:
                child = self.start()
            except OSError as error:
                self._finish(Outcome(key, error=f"the {self._name} can't be started: {error}"))
                continue
            if n_closed != self._n_closed:
                child.close()
            return child, key, job

    def _finish(self, outcome: Outcome) -> None:
        with self._changed:
            if outcome.key or outcome.error is not None:
                self._outcomes.append(outcome)
            self._is_working = False
            self._changed.notify_all()


def _work(owner: weakref.ref[JobQueue]) -> None:
    """The thread: hands out jobs until there are none. While it waits, it doesn't keep the owner alive."""
    while (process := owner()) is not None and (job := process._next_job()) is not None:
        del process
        child, key, message = job
        outcome = child.call(key, message)
        if (process := owner()) is not None:
            process._finish(outcome)
        del process
