"""A process that evaluates snapshots of an agent while its training goes on, seen from both of its sides.

It is a new interpreter and not a fork, which is not safe beside threads; and it does not import the program that
trains, which therefore needs no ``if __name__ == "__main__":``. It has the lowest priority and one thread.
"""

from __future__ import annotations

import faulthandler
import os
import pickle
import queue
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import warnings
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection, Pipe
from pathlib import Path

import cloudpickle  # type: ignore[import-untyped]
import gymnasium as gym
import torch as th
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.utils import set_random_seed
from stable_baselines3.common.vec_env import VecEnv

from sb3_ext.callbacks.evaluation.snapshot import ScoreAgent, Snapshot
from sb3_ext.runs.scoring import Scores
from sb3_ext.wrappers.training_link import link_to_training

__all__ = ["EvaluationProcess", "EvaluationProcessFailed", "EvaluationSetup", "run"]

#: Seconds that the process has to end by itself
_CLOSE_TIMEOUT = 5.0
#: Characters of its last words that are shown
_LAST_WORDS = 4000
#: How long it waits for a message before it looks whether the process that started it is still there, in seconds
_LOOK_AFTER_PARENT = 2.0
#: The first thing that it does is to step back
_COMMAND = "import os; os.nice(19); from sb3_ext.callbacks.evaluation.process import run; run({}, {!r})"
_ONE_THREAD = {name: "1" for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")}


class EvaluationProcessFailed(RuntimeError):
    """The process can't evaluate; the message tells why, with its traceback."""


@dataclass(frozen=True)
class EvaluationSetup:
    """
    What the process needs to know once.

    :param make_env: makes the evaluation environments; cloudpickle must be able to send it
    :param algorithm: class of the model
    :param score_agent: plays an agent in environments
    :param seed: of random numbers, such as those of actions by chance
    :param gamma: the discount of the algorithm, which some wrappers want to know
    """

    make_env: Callable[[], VecEnv]
    algorithm: type[BaseAlgorithm]
    score_agent: ScoreAgent
    seed: int | None = None
    gamma: float | None = None


class EvaluationProcess:
    """
    Starts the process. It evaluates one snapshot at a time.

    :param setup: what it needs to know
    :raises EvaluationProcessFailed: when it can't be started
    """

    def __init__(self, setup: EvaluationSetup) -> None:
        if os.name != "posix":
            raise EvaluationProcessFailed(f"Evaluation in a process of its own is not there for {sys.platform} yet.")
        folder = Path(tempfile.mkdtemp(prefix="sb3_ext-evaluation-"))
        self._words = folder / "stderr.txt"
        self._connection, theirs = Pipe()
        try:
            (folder / "setup.pkl").write_bytes(_pack(setup))
            self._process = _start(theirs.fileno(), folder / "setup.pkl", self._words)
        except Exception as error:
            shutil.rmtree(folder, ignore_errors=True)
            raise EvaluationProcessFailed(f"The evaluation process can't be started: {error!r}") from error
        finally:
            theirs.close()
        self._poller = select.poll()
        self._poller.register(self._connection, select.POLLIN)
        #: Ends it, whatever it is doing; also at exit and when this object is garbage
        self.close = weakref.finalize(self, _close, os.getpid(), self._process, self._connection, folder)

    @property
    def pid(self) -> int:
        """Its number in the system."""
        return self._process.pid

    def request(self, snapshot: Snapshot) -> None:
        """
        :param snapshot: what to evaluate; its files must stay until the answer is there
        """
        # What it says belongs to one evaluation, and does not pile up
        os.truncate(self._words, 0)
        try:
            self._connection.send_bytes(pickle.dumps(snapshot))
        except OSError:
            pass  # it has died, and answer() will say so

    def has_answer(self) -> bool:
        """:return: whether :meth:`answer` returns at once; takes less than a microsecond"""
        return bool(self._poller.poll(0))

    def answer(self, timeout: float | None = None) -> Scores:
        """
        Wait for the scores of the snapshot that was requested.

        :param timeout: seconds to wait; ``None`` for ever
        :raises TimeoutError: when they are not there by then
        :raises EvaluationProcessFailed: when there will be none
        """
        if timeout is not None and not self._connection.poll(timeout):
            raise TimeoutError
        try:
            answer = pickle.loads(self._connection.recv_bytes())
        except (EOFError, OSError):
            raise EvaluationProcessFailed(self._last_words()) from None
        if isinstance(answer, Scores):
            return answer
        raise EvaluationProcessFailed(f"An error in the evaluation process:\n{answer}")

    def _last_words(self) -> str:
        try:
            code = self._process.wait(1.0)
        except subprocess.TimeoutExpired:
            code = None
        how = f"was ended by {signal.Signals(-code).name}" if code is not None and code < 0 else f"ended ({code})"
        said = self._words.read_text(errors="replace")[-_LAST_WORDS:].strip() if self._words.is_file() else ""
        return f"The evaluation process {how}" + (f", and said:\n{said}" if said else ".")


def _start(connection: int, setup: Path, words: Path) -> subprocess.Popen[bytes]:
    # As here, also where a script or a test has changed it
    path = os.pathsep.join(entry or os.getcwd() for entry in sys.path)
    # Ctrl-C in a terminal reaches all of its processes, and this one leaves it to the training. A mask is inherited, so
    # there is no moment in which it could be hit.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        with words.open("ab") as stderr:
            return subprocess.Popen(
                [sys.executable, "-c", _COMMAND.format(connection, str(setup))],
                env={**os.environ, **_ONE_THREAD, "PYTHONPATH": path},
                pass_fds=[connection],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=stderr,
            )
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _close(owner: int, process: subprocess.Popen[bytes], connection: Connection, folder: Path) -> None:
    if os.getpid() != owner:
        return  # a fork of the owner has ended
    connection.close()
    process.terminate()
    try:
        process.wait(_CLOSE_TIMEOUT)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    shutil.rmtree(folder, ignore_errors=True)


def _pack(setup: EvaluationSetup) -> bytes:
    """With the environments that programs have registered: the process doesn't import them all."""
    specs = []
    for spec in gym.registry.values():
        try:
            specs.append(cloudpickle.dumps(spec))
        except Exception:
            continue  # one that can't be sent is not the one that is wanted, or make_env will say so
    return cloudpickle.dumps((specs, setup))


def run(connection: int, setup: str) -> None:
    """
    The life of the process.

    :param connection: file descriptor of the pipe to the training
    :param setup: file with the setup
    """
    faulthandler.enable()
    th.set_num_threads(1)
    pipe = Connection(connection)
    requests: queue.SimpleQueue[Snapshot] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(pipe, requests, os.getppid()), daemon=True).start()
    try:
        _serve(pipe, requests, Path(setup))
    finally:
        shutil.rmtree(Path(setup).parent, ignore_errors=True)


def _serve(pipe: Connection, requests: queue.SimpleQueue[Snapshot], file: Path) -> None:
    env = None
    failure = ""
    try:
        setup = _unpack(file)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the training's own environments warn too
            env = setup.make_env()
        link_to_training(env, setup.gamma)
        if setup.seed is not None:
            set_random_seed(setup.seed)
    except Exception:
        failure = traceback.format_exc()
    signal.signal(signal.SIGTERM, _exit)  # from now on there is something to close
    try:
        while True:
            snapshot = requests.get()
            answer: Scores | str = failure
            if env is not None and not failure:
                try:
                    answer = snapshot.score(setup.algorithm, env, setup.score_agent)
                except Exception:
                    answer = traceback.format_exc()
            pipe.send_bytes(pickle.dumps(answer))
    finally:
        if env is not None:
            env.close()


def _exit(*_: object) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # one is enough
    sys.exit()


def _unpack(file: Path) -> EvaluationSetup:
    specs, setup = pickle.loads(file.read_bytes())
    for packed in specs:
        spec = pickle.loads(packed)
        gym.registry.setdefault(spec.id, spec)
    return setup


def _listen(pipe: Connection, requests: queue.SimpleQueue[Snapshot], parent: int) -> None:
    """Also while an episode is played: the process ends at once when nobody wants its answer any more."""
    try:
        while os.getppid() == parent:
            if pipe.poll(_LOOK_AFTER_PARENT):
                requests.put(pickle.loads(pipe.recv_bytes()))
    except (EOFError, OSError):
        pass
    signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGTERM)
    time.sleep(_CLOSE_TIMEOUT)
    os._exit(1)
