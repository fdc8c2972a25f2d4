"""A second Python interpreter, by default of low priority, that runs one job after the other: both of its sides.

It is started as a program, not by ``multiprocessing``. It does not import the user's script again, so a script needs no
``if __name__ == "__main__":``, and nothing is forked beside threads or a GPU. It uses one thread.
"""

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

__all__ = ["ChildProcess", "Outcome", "answer_jobs", "end_cleanly", "look_after_parent", "serve", "start_python"]

#: The working directory is on its path only if it is on ours
_PROGRAM = (
    "import os, sys; parent = os.getppid(); sys.path[:] = filter(None, sys.path); "
    "from {module} import serve; serve({connection}, parent)"
)
_ONE_THREAD = {f"{library}_NUM_THREADS": "1" for library in ("OMP", "MKL", "OPENBLAS")}
#: Seconds it has to clean up
_END_TIMEOUT = 1.0
#: Seconds between two checks that the parent process is alive
_LOOK_EVERY = 1.0
#: Bytes of its last output that are shown
_LAST_WORDS = 4000


@dataclass(frozen=True)
class Outcome:
    """What a job returned, or why it failed: in one line, and as a traceback or the last output of the process."""

    key: str
    result: Any = None
    error: str | None = None
    details: str = ""


class ChildProcess:
    """
    Starts the process, or raises an ``OSError``. It is closed after a job that it could not answer.

    :param owner: the process ends when this object does, even in the middle of a job
    :param module: whose ``serve`` answers the jobs
    :param knows_envs: whether it knows the environments that this process has registered
    """

    def __init__(self, owner: object, name: str, module: str = __name__, knows_envs: bool = True) -> None:
        if os.name != "posix":
            raise OSError(f"A second process is not available on {sys.platform} yet.")
        self._name = name
        self._specs = _registered_specs() if knows_envs else []
        self._stderr = tempfile.TemporaryFile(buffering=0)
        with starting_process():
            self._connection, theirs = Pipe()
            with theirs:
                self._process = start_python(module, theirs.fileno(), self._stderr)
        self.pid = self._process.pid
        #: Ends it, whatever it is doing; also at exit
        self.close = weakref.finalize(owner, _close, os.getpid(), self._process, self._stderr)

    @property
    def is_closed(self) -> bool:
        return not self.close.alive

    def call(self, key: str, job: bytes) -> Outcome:
        """Run a job (function and arguments, pickled by cloudpickle) and wait for it."""
        try:
            self._connection.send_bytes(pickle.dumps((self._specs, job)))
            outcome = Outcome(key, *pickle.loads(self._connection.recv_bytes()))
            if outcome.error is None:
                self._specs = []
            # Its output belongs to one job and does not pile up
            self._stderr.seek(0)
            self._stderr.truncate()
            return outcome
        # Whatever is wrong with the pipe or the answer is the job's outcome
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
        # Python's dump after a fatal signal does not fit in one line
        reason = said.partition("Fatal Python error")[0].strip().rpartition("\n")[2]
        return Outcome(key, error=f"the {self._name} {how}" + (f": {reason}" if reason else ""), details=said)


def _registered_specs() -> list[bytes]:
    """All registered environments: the process does not import the modules that registered them."""
    specs = []
    for spec in list(gym.registry.values()):
        with suppress(Exception):  # one that can't be sent fails later, with a clear error, if it is needed
            specs.append(cloudpickle.dumps(spec))
    return specs


def start_python(module: str, connection: int, stderr: IO[bytes] | int) -> subprocess.Popen[bytes]:
    """
    Start an interpreter that calls the module's ``serve``, with the file descriptor ``connection`` and the id of this
    process. Ctrl-C does not reach it.
    """
    path = os.pathsep.join(entry or os.getcwd() for entry in sys.path)
    # Ctrl-C in a terminal reaches all processes; this one leaves it to the training. The mask is inherited, so the
    # process is never without it.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        return subprocess.Popen(
            [sys.executable, "-X", "faulthandler", "-c", _PROGRAM.format(module=module, connection=connection)],
            # Environments that draw with SDL need no screen
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
    """As :func:`answer_jobs`, with low priority."""
    # Only now: on a busy machine, starting with low priority takes minutes
    os.setpriority(os.PRIO_PROCESS, 0, 19)
    answer_jobs(connection, parent)


def answer_jobs(connection: int, parent: int) -> None:
    """The main loop of the process, given a file descriptor of the pipe to the parent and the parent's process id."""
    os.set_inheritable(connection, False)
    threading.Thread(target=look_after_parent, args=(parent, connection), daemon=True).start()
    pipe = Connection(connection)
    with suppress(EOFError, OSError):  # the parent is gone
        while True:
            pipe.send_bytes(_answer(*pickle.loads(pipe.recv_bytes())))


def _answer(specs: list[bytes], job: bytes) -> bytes:
    try:
        function, args = pickle.loads(job)
        for packed in specs:
            with suppress(Exception):
                spec = pickle.loads(packed)
                gym.registry.setdefault(spec.id, spec)
        signal.signal(signal.SIGTERM, end_cleanly)  # from now on there may be something to close
        return cloudpickle.dumps((function(*args),))
    # Every error of a job is its outcome
    except Exception as error:
        return pickle.dumps((None, f"{type(error).__name__}: {error}", traceback.format_exc()))


def end_cleanly(*_: object) -> None:
    """For SIGTERM: close what is open."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.exit(1)


def look_after_parent(parent: int, connection: int) -> None:
    """End when the parent is gone, even in the middle of a job."""
    poller = select.poll()
    poller.register(connection, 0)  # reports that the other end is closed; a fork of the parent may keep it open
    while os.getppid() == parent and not poller.poll(_LOOK_EVERY * 1000):
        pass
    signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGTERM)
    time.sleep(_END_TIMEOUT)
    os._exit(1)
