"""A second Python interpreter of low priority, seen from both of its sides: it does one job after the other.

It is started as a program, not by ``multiprocessing``: it doesn't import the user's script again, so that a script
needs no ``if __name__ == "__main__":``, and nothing is forked beside threads or a GPU. It has one thread.
"""

from __future__ import annotations

import os
import pickle
import select
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import weakref
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, Pipe
from typing import IO, Any

import cloudpickle  # type: ignore[import-untyped]
import gymnasium as gym

from sb3_ext.common.process_start import starting_process

__all__ = ["ChildProcess", "Outcome", "serve"]

#: The working directory is in its path only where it is in ours
_PROGRAM = (
    "import os, sys; parent = os.getppid(); sys.path[:] = filter(None, sys.path); "
    "from sb3_ext.runs.processes.child import serve; serve({}, parent)"
)
_ONE_THREAD = {f"{library}_NUM_THREADS": "1" for library in ("OMP", "MKL", "OPENBLAS")}
#: Seconds that it has to close and remove what it has made
_END_TIMEOUT = 5.0
#: Seconds between two looks at whether the process that started it is still there
_LOOK_EVERY = 1.0
#: Bytes of its last words that are shown
_LAST_WORDS = 4000


@dataclass(frozen=True)
class Outcome:
    """
    :param key: what the job was called
    :param result: what it returned
    :param error: why it failed, in a line; ``None`` when it didn't
    :param details: the traceback of the error, or the last words of the process
    """

    key: str
    result: Any = None
    error: str | None = None
    details: str = ""


class ChildProcess:
    """
    Starts the process. After a job that it could not answer it is closed.

    :param owner: it ends at the latest with this object, in the middle of a job too
    :param name: what messages call it
    :raises OSError: when it can't be started
    """

    def __init__(self, owner: object, name: str) -> None:
        if os.name != "posix":
            raise OSError(f"A second process beside training is not there for {sys.platform} yet.")
        self._name = name
        self._specs = _registered_specs()
        self._stderr = tempfile.TemporaryFile(buffering=0)
        with starting_process():
            self._connection, theirs = Pipe()
            with theirs:
                self._process = _start(theirs.fileno(), self._stderr)
        #: Its number in the system
        self.pid = self._process.pid
        #: Ends it, whatever it is doing; also at exit
        self.close = weakref.finalize(owner, _close, os.getpid(), self._process, self._stderr)

    @property
    def is_closed(self) -> bool:
        """Whether it takes no more jobs."""
        return not self.close.alive

    def call(self, key: str, job: bytes) -> Outcome:
        """
        Wait until a job is done.

        :param key: what it is called
        :param job: function and arguments, pickled by cloudpickle
        """
        try:
            self._connection.send_bytes(pickle.dumps((self._specs, job)))
            outcome = Outcome(key, *pickle.loads(self._connection.recv_bytes()))
            if outcome.error is None:
                self._specs = []
            # What it says belongs to one job, and does not pile up. It writes on where the file is moved to here
            self._stderr.seek(0)
            self._stderr.truncate()
            return outcome
        except Exception as error:
            outcome = self._failure(key, error)
            self.close()
            return outcome

    def _failure(self, key: str, error: Exception) -> Outcome:
        if self.is_closed:
            return Outcome(key, error="it was stopped")
        try:
            code = self._process.wait(_END_TIMEOUT)
            how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"
            self._stderr.seek(max(self._stderr.seek(0, os.SEEK_END) - _LAST_WORDS, 0))
            said = self._stderr.read().decode(errors="replace").strip()
        except (subprocess.TimeoutExpired, ValueError):  # it lives on, or is being closed
            return Outcome(key, error=f"{type(error).__name__}: {error}")
        # What Python adds when it is ended by a signal is not for one line
        reason = said.partition("Fatal Python error")[0].strip().rpartition("\n")[2]
        return Outcome(key, error=f"the {self._name} {how}" + (f": {reason}" if reason else ""), details=said)


def _registered_specs() -> list[bytes]:
    """The environments that programs have registered: the process doesn't import them all."""
    specs = []
    for spec in list(gym.registry.values()):
        with suppress(Exception):  # one that can't be sent is not the one that is wanted, or making it will say so
            specs.append(cloudpickle.dumps(spec))
    return specs


def _start(connection: int, stderr: IO[bytes]) -> subprocess.Popen[bytes]:
    # As here, also where a script or a test has changed it
    path = os.pathsep.join(entry or os.getcwd() for entry in sys.path)
    # Ctrl-C in a terminal reaches all of its processes, and this one leaves it to the training. A mask is inherited, so
    # there is no moment in which it could be hit.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        return subprocess.Popen(
            [sys.executable, "-X", "faulthandler", "-c", _PROGRAM.format(connection)],
            # Nothing is shown there: environments that draw with SDL need no screen
            env={"SDL_VIDEODRIVER": "dummy", **os.environ, **_ONE_THREAD, "PYTHONPATH": path},
            pass_fds=[connection],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=stderr,
        )
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _close(owner: int, process: subprocess.Popen[bytes], stderr: IO[bytes]) -> None:
    if os.getpid() != owner:
        return  # a fork of the owner has ended
    process.terminate()
    try:
        process.wait(_END_TIMEOUT)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    stderr.close()


def serve(connection: int, parent: int) -> None:
    """
    The life of the process.

    :param connection: file descriptor of the pipe to the process that started it
    :param parent: number of that process
    """
    os.set_inheritable(connection, False)
    # Not before: on a busy machine, a start of low priority takes minutes
    os.setpriority(os.PRIO_PROCESS, 0, 19)
    threading.Thread(target=_look_after_parent, args=(parent, connection), daemon=True).start()
    pipe = Connection(connection)
    with suppress(EOFError, OSError):  # nobody is there any more
        while True:
            pipe.send_bytes(_answer(*pickle.loads(pipe.recv_bytes())))


def _answer(specs: list[bytes], job: bytes) -> bytes:
    try:
        function, args = pickle.loads(job)
        _register(specs)
        signal.signal(signal.SIGTERM, _exit)  # from now on there may be something to close
        return cloudpickle.dumps((function(*args),))
    except Exception as error:
        return pickle.dumps((None, f"{type(error).__name__}: {error}", traceback.format_exc()))


def _register(specs: list[bytes]) -> None:
    for packed in specs:
        with suppress(Exception):
            spec = pickle.loads(packed)
            gym.registry.setdefault(spec.id, spec)


def _exit(*_: object) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # one is enough
    sys.exit(1)


def _look_after_parent(parent: int, connection: int) -> None:
    """End also in the middle of a job, when nobody wants it any more."""
    poller = select.poll()
    poller.register(connection, 0)  # tells when the other end is closed; a fork of the parent may hold it open
    while os.getppid() == parent and not poller.poll(_LOOK_EVERY * 1000):
        pass
    signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGTERM)
    time.sleep(_END_TIMEOUT)
    os._exit(1)
