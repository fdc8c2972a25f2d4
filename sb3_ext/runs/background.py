"""A second Python process of low priority, for work that training must not wait for.

It is started as a program, not by ``multiprocessing``: it doesn't import the user's script again, so that a script
needs no ``if __name__ == "__main__":``, and nothing is forked beside threads or a GPU. Top-level imports are few, so
that the process ignores Ctrl-C and has its priority before the slow imports begin.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import weakref
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, BinaryIO

import cloudpickle  # type: ignore[import-untyped]

__all__ = ["BackgroundProcess", "Outcome"]

#: With the path of this process, whatever the working directory is
_PROGRAM = "import sys; sys.path[:] = sys.argv[1:]; from sb3_ext.runs.background import serve; serve()"
_LENGTH = struct.Struct(">Q")
#: Seconds that the process has to remove what it has half written
_END_TIMEOUT = 5.0
#: Seconds between two looks at whether the process that started this one is still there
_LOOK_EVERY = 2.0


@dataclass(frozen=True)
class Outcome:
    """
    :param key: what the job was called
    :param result: what it returned
    :param error: why it failed; ``None`` when it didn't
    """

    key: str
    result: Any = None
    error: str | None = None


class BackgroundProcess:
    """
    Does jobs one after the other. It starts with the first one; nothing here waits for it, except :meth:`wait`.

    :param max_waiting: how many jobs may wait; more drop the oldest one. A job takes the place of a waiting one that is
        called the same
    """

    def __init__(self, max_waiting: int = 3) -> None:
        self._max_waiting = max_waiting
        self._waiting: OrderedDict[str, bytes] = OrderedDict()
        self._outcomes: deque[Outcome] = deque()
        self._changed = threading.Condition()
        self._is_working = False
        self._thread: threading.Thread | None = None
        self._child = _Child()
        # Also at the interpreter's end, when nobody has closed this
        self._end = weakref.finalize(self, self._child.end)
        self.n_dropped = 0

    @property
    def is_busy(self) -> bool:
        """Whether there are jobs that are not done."""
        return self._is_working or bool(self._waiting)

    def submit(self, key: str, function: Callable[..., Any], *args: Any) -> None:
        """
        :param key: what to call the job
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
                # It holds no reference to this object while it waits for nothing, see _work()
                self._thread = threading.Thread(target=_work, args=(weakref.ref(self), self._child), daemon=True)
                self._thread.start()

    def outcomes(self) -> list[Outcome]:
        """:return: of the jobs that have ended since this was asked last"""
        news = []
        while self._outcomes:
            news.append(self._outcomes.popleft())
        return news

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
            thread = self._thread
        self._child.end()
        # The thread may have been about to start it
        while thread is not None and thread.is_alive():
            thread.join(0.1)
            self._child.end()

    def _next_job(self) -> tuple[str, bytes] | None:
        with self._changed:
            if self._waiting:
                self._is_working = True
                return self._waiting.popitem(last=False)
            self._thread = None
            return None

    def _finish(self, outcome: Outcome) -> None:
        with self._changed:
            self._outcomes.append(outcome)
            self._is_working = False
            self._changed.notify_all()


def _work(owner: weakref.ref[BackgroundProcess], child: _Child) -> None:
    """Hand out jobs until there are none: the thread's life. Between jobs it doesn't keep the owner alive."""
    while (process := owner()) is not None and (job := process._next_job()) is not None:
        del process
        key, message = job
        outcome = child.ask(key, message)
        if (process := owner()) is not None:
            process._finish(outcome)
        del process


class _Child:
    """The process, seen from here."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._errors: BinaryIO | None = None
        self._is_ended = False
        self._owner = os.getpid()

    def ask(self, key: str, job: bytes) -> Outcome:
        """
        :param key: what the job is called
        :param job: function and arguments
        """
        self._is_ended = False
        try:
            process = self._started()
            assert process.stdin is not None and process.stdout is not None
            _send(process.stdin, job)
            succeeded, answer = pickle.loads(_receive(process.stdout))
        except Exception as error:
            reason = "it was stopped" if self._is_ended else self._last_words(error)
            self.end()
            return Outcome(key, error=reason)
        return Outcome(key, result=answer) if succeeded else Outcome(key, error=answer)

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            self._errors = tempfile.TemporaryFile()
            one_thread = {f"{library}_NUM_THREADS": "1" for library in ("OMP", "MKL", "OPENBLAS")}
            self._process = subprocess.Popen(
                [sys.executable, "-c", _PROGRAM, *sys.path],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                # Nothing is shown there: environments that draw with SDL need no screen
                env={"SDL_VIDEODRIVER": "dummy", **os.environ, **one_thread},
            )
        return self._process

    def _last_words(self, error: Exception) -> str:
        process, errors = self._process, self._errors
        if process is None or errors is None:
            return f"the process could not be started: {error}"
        try:
            code = process.wait(1.0)
        except subprocess.TimeoutExpired:
            return f"{type(error).__name__}: {error}"
        errors.seek(max(errors.seek(0, os.SEEK_END) - 2000, 0))
        lines = errors.read().decode(errors="replace").split("\n")
        said = next((line for line in reversed(lines) if line.strip()), "it said nothing")
        return f"the process ended with code {code}: {said}"

    def end(self) -> None:
        if os.getpid() != self._owner:
            return  # a fork of the owner has ended
        self._is_ended = True
        process, self._process = self._process, None
        if process is None:
            return
        process.terminate()
        try:
            process.wait(_END_TIMEOUT)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        for stream in (process.stdout, self._errors):
            if stream is not None:
                stream.close()
        with contextlib.suppress(OSError):  # what was not sent
            assert process.stdin is not None
            process.stdin.close()


def _send(stream: BinaryIO | Any, message: bytes) -> None:
    stream.write(_LENGTH.pack(len(message)))
    stream.write(message)
    stream.flush()


def _receive(stream: BinaryIO | Any) -> bytes:
    """:raises EOFError: when the other side has gone"""
    header = stream.read(_LENGTH.size)
    message = stream.read(_LENGTH.unpack(header)[0]) if len(header) == _LENGTH.size else b""
    if not message:
        raise EOFError("the process has ended")
    return message


def serve() -> None:
    """The life of the process."""
    # Ctrl-C reaches all processes of a terminal, and the main one decides what to do
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that unfinished files are removed
    if hasattr(os, "nice"):
        os.nice(19)
    threading.Thread(target=_look_after_parent, args=(os.getppid(),), daemon=True).start()
    jobs, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    # What a job prints must not get between the answers
    nowhere = os.open(os.devnull, os.O_RDWR)
    os.dup2(nowhere, 0)
    os.dup2(nowhere, 1)
    try:
        while True:
            _send(answers, _answer(_receive(jobs)))
    except (EOFError, BrokenPipeError):
        pass  # the main process has gone


def _look_after_parent(parent: int) -> None:
    """End also in the middle of a job, when nobody wants it any more. What it leaves is removed with the next start."""
    while os.getppid() == parent:
        time.sleep(_LOOK_EVERY)
    os._exit(1)


def _answer(job: bytes) -> bytes:
    try:
        function, args = pickle.loads(job)
        return cloudpickle.dumps((True, function(*args)))
    except Exception as error:
        traceback.print_exc()
        return pickle.dumps((False, f"{type(error).__name__}: {error}"))
