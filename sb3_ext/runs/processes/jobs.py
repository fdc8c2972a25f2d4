"""Work that training must not wait for: jobs that another process does one after the other."""

from __future__ import annotations

import threading
import weakref
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Any

import cloudpickle  # type: ignore[import-untyped]

from sb3_ext.common.process_start import starting_process
from sb3_ext.runs.processes.child import ChildProcess, Outcome

__all__ = ["BackgroundProcess", "Outcome"]


class BackgroundProcess:
    """
    Does jobs one after the other. It starts with the first one, and is replaced when it dies. Nothing here waits for
    it, except :meth:`wait` and :meth:`next_outcome`.

    :param max_waiting: how many jobs may wait; more drop the oldest one. A job takes the place of a waiting one that is
        called the same
    :param name: what messages call it
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
        """Whether there are jobs that are not done."""
        # In this order: a job that is begun in between is among the waiting ones or seen as begun
        return bool(self._waiting) or self._is_working

    @property
    def has_outcome(self) -> bool:
        """Whether a job has ended that nobody has asked for yet."""
        return bool(self._outcomes)

    def start(self) -> ChildProcess:
        """
        :return: the process, which is started if it isn't there
        :raises OSError: when it can't be started
        """
        with starting_process():
            if self._child is None or self._child.is_closed:
                self._child = ChildProcess(self, self._name)
            return self._child

    def submit(self, key: str, function: Callable[..., Any], *args: Any) -> None:
        """
        :param key: what to call the job; one without a name has an outcome only when it fails
        :param function: what to do there
        :param args: its arguments
        """
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
        """:return: of the jobs that have ended since this was asked last"""
        news = []
        while self._outcomes:
            news.append(self._outcomes.popleft())
        return news

    def next_outcome(self, seconds: float | None) -> Outcome | None:
        """
        :param seconds: how long to wait at most; ``None`` for ever
        :return: of the job that has ended first; ``None`` when there is none by then
        """
        with self._changed:
            self._changed.wait_for(lambda: self._outcomes, seconds)
            return self._outcomes.popleft() if self._outcomes else None

    def wait(self, seconds: float) -> bool:
        """
        :param seconds: how long to wait at most
        :return: whether all jobs are done
        """
        with self._changed:
            return self._changed.wait_for(lambda: not self.is_busy, seconds)

    def close(self) -> None:
        """End the process, whatever it is doing. A new job would start another one."""
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
            # Without the lock: training may submit a job meanwhile, and must not wait
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


def _work(owner: weakref.ref[BackgroundProcess]) -> None:
    """Hand out jobs until there are none: the thread's life. While it waits, it doesn't keep the owner alive."""
    while (process := owner()) is not None and (job := process._next_job()) is not None:
        del process
        child, key, message = job
        outcome = child.call(key, message)
        if (process := owner()) is not None:
            process._finish(outcome)
        del process
