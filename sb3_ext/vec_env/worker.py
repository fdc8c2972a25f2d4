"""A process that steps some environments, seen from both sides.

Two one-way pipes wake the process and carry what does not fit into arrays. An empty message means "step with the
actions in shared memory" one way and "done, nothing to report" the other way. Pipes, not semaphores: each side learns
at once if the other has died, and a step of some hundred microseconds takes about as long with either.

There are few top-level imports, so that a new process ignores Ctrl-C before the slow imports begin.
"""

from __future__ import annotations

import pickle
import select
import signal
import time
import traceback
from collections.abc import Callable, Iterable, Sequence
from multiprocessing.connection import Connection
from multiprocessing.context import BaseContext
from typing import TYPE_CHECKING, Any

import cloudpickle  # type: ignore[import-untyped]

from sb3_ext.vec_env.shared_arrays import SharedArrays

if TYPE_CHECKING:
    from multiprocessing.process import BaseProcess

    import gymnasium as gym

    from sb3_ext.vec_env.env_slice import EnvSlice

__all__ = ["RemoteError", "Worker", "WorkerDied", "describe_death"]

#: Step with the shared actions; as a reply: done, nothing to report
_STEP = _DONE = b""
_CLOSE = b"close"
#: Seconds to poll for a message before going to sleep, since a sleeping core takes long to wake up. About as long as
#: choosing the next actions takes
_WATCH_SECONDS = 0.001
#: Seconds that a worker has to close its environments before it is killed
_CLOSE_TIMEOUT = 5.0


class WorkerDied(RuntimeError):
    """A worker process ended by itself; its environments are gone."""


def describe_death(process: BaseProcess, envs: str) -> WorkerDied:
    """:return: an error that says how a process has ended"""
    code = process.exitcode
    if code is None or code >= 0:
        how = f"ended with exit code {code}"
    else:
        how = f"was ended by {signal.Signals(-code).name}" + (" (out of memory?)" if code == -9 else "")
    return WorkerDied(f"The worker process of {envs} (pid {process.pid}) {how}.")


class _RemoteTraceback(Exception):
    """Shown as the cause of an exception in a worker."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}"


class RemoteError:
    """An exception on its way from a worker to the main process."""

    def __init__(self, error: BaseException, index: int) -> None:
        self.text = f"Environment {index}, in a worker process:\n{traceback.format_exc()}"
        self._summary = f"environment {index}: {type(error).__name__}: {error}"
        try:
            self._pickled = pickle.dumps(error)
        # Pickling calls methods of the environment's own exception
        except Exception:
            self._pickled = b""

    def as_exception(self) -> Exception:
        """The exception itself if it can be pickled, else a ``RuntimeError``. Its cause is the worker's traceback."""
        try:
            error = pickle.loads(self._pickled)
            assert isinstance(error, Exception)
        # Unpickling does too, and may not find the class
        except Exception:
            error = RuntimeError(self._summary)
        error.__cause__ = _RemoteTraceback(self.text)
        return error


class Worker:
    """Starts a process for some environments, of which ``first`` is the index of the first one."""

    def __init__(
        self,
        context: BaseContext,
        env_fns: Sequence[Callable[[], gym.Env]],
        first: int,
        arrays: SharedArrays,
        obs_keys: Sequence[Any],
        siblings: Iterable[Worker],
    ) -> None:
        self.indices = range(first, first + len(env_fns))
        self.rows = slice(first, first + len(env_fns))
        child_reader, self._writer = context.Pipe(duplex=False)
        self._reader, child_writer = context.Pipe(duplex=False)
        # A forked process also has the main process's ends of the pipes. It must close them to see that one die
        ours = [end for worker in (self, *siblings) for end in (worker._reader, worker._writer)]
        inherited = ours if context.get_start_method() == "fork" else []
        args = (child_reader, child_writer, inherited, cloudpickle.dumps(list(env_fns)), first, arrays, obs_keys)
        # A daemon ends with the main process even if that one can't close it
        self.process = context.Process(target=_run, args=args, daemon=True)  # type: ignore[attr-defined]
        self.process.start()
        child_reader.close()
        child_writer.close()
        self._watch = _watcher(self._reader)

    def send_step(self, actions: Any = None) -> None:
        """:param actions: of this worker's environments; ``None`` if they are in the shared array"""
        self._send(_STEP if actions is None else _dumps(("step", (actions,))))

    def send(self, command: str, *args: Any) -> None:
        self._send(cloudpickle.dumps((command, args)))

    def _send(self, message: bytes) -> None:
        try:
            self._writer.send_bytes(message)
        except OSError:
            pass  # the process has died, and ``receive`` will say so

    def receive(self) -> Any:
        """:return: the reply: a result, ``None`` for an empty one, or a ``RemoteError``"""
        try:
            self._watch()
            message = self._reader.recv_bytes()
        except (EOFError, OSError):
            raise self._died() from None
        if message == _DONE:
            return None
        try:
            return pickle.loads(message)
        # Any class of the environment may fail to unpickle
        except Exception as error:
            return RemoteError(error, self.indices[0])

    def _died(self) -> WorkerDied:
        self.process.join(1.0)
        return describe_death(self.process, f"environments {self.indices[0]} to {self.indices[-1]}")

    def start_closing(self) -> None:
        """Tell the process to end."""
        try:
            self._writer.send_bytes(_CLOSE)
        except OSError:
            pass
        # A process that is about to reply notices that nobody reads it
        self._writer.close()
        self._reader.close()

    def finish_closing(self) -> None:
        """Wait until the process has ended; force it if it takes too long."""
        for end_by_force in (self.process.terminate, self.process.kill):
            self.process.join(_CLOSE_TIMEOUT)
            if self.process.exitcode is not None:
                break
            end_by_force()
        self.process.join()
        self.process.close()


def _run(
    reader: Connection,
    writer: Connection,
    inherited: Sequence[Connection],
    env_fns: bytes,
    first: int,
    arrays: SharedArrays,
    obs_keys: Sequence[Any],
) -> None:
    # Ctrl-C reaches all processes of a terminal. The main process decides what to do and closes the pipes
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for connection in inherited:
        connection.close()
    from sb3_ext.vec_env.env_slice import EnvSlice

    envs = EnvSlice(first)
    watch = _watcher(reader)
    try:
        writer.send_bytes(_answer(_make, envs, env_fns, arrays, obs_keys))
        watch()
        while (message := reader.recv_bytes()) != _CLOSE:
            writer.send_bytes(_answer(_obey, envs, message))
            watch()
    except (EOFError, OSError):
        pass  # the main process has gone
    envs.close()


def _watcher(reader: Connection) -> Callable[[], None]:
    """A function that returns when there is something to read, or after a while."""
    if not hasattr(select, "poll"):
        return lambda: None
    poller = select.poll()
    poller.register(reader, select.POLLIN)
    poll, clock = poller.poll, time.perf_counter

    def watch() -> None:
        end = clock() + _WATCH_SECONDS
        while not poll(0) and clock() < end:
            pass

    return watch


def _answer(work: Callable[..., Any], envs: EnvSlice, *args: Any) -> bytes:
    """Turns the result or the exception into a message."""
    try:
        result = work(envs, *args)
        return _dumps(result) if result else _DONE
    # The main process raises whatever the environment raised
    except Exception as error:
        return pickle.dumps(RemoteError(error, envs.active))


def _make(envs: EnvSlice, env_fns: bytes, arrays: SharedArrays, obs_keys: Sequence[Any]) -> None:
    envs.make(cloudpickle.loads(env_fns))
    envs.attach(arrays, obs_keys)


def _obey(envs: EnvSlice, message: bytes) -> Any:
    if message == _STEP:
        return envs.step(envs.read_actions())
    command, args = pickle.loads(message)
    return getattr(envs, command)(*args)


def _dumps(result: Any) -> bytes:
    try:
        return pickle.dumps(result, pickle.HIGHEST_PROTOCOL)
    # Functions and local classes fail in several ways; cloudpickle is slower
    except Exception:
        return cloudpickle.dumps(result)
