"""The critic's half of an update, in a fork of this process: actor and critic of a small policy share no layers.

The halves synchronise once per minibatch, to clip the norm of all gradients. They do so by numbers in shared memory: a
pipe would take a tenth of the time of the work.
"""

import gc
import itertools
import multiprocessing
import os
import platform
import signal
import time
import warnings
import weakref
from collections.abc import Callable
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any, Protocol

import numpy as np
import torch as th

from sb3_ext.fast.flat import AdamPart, AdamSettings
from sb3_ext.fast.mlp import Mlp
from sb3_ext.vec_env.shared_arrays import SharedArrays

__all__ = ["CriticProcess", "CriticProcessFailed", "ValueLossGradient", "can_fork"]

#: Positions in the shared words, one cache line for each side. Of the main process: number of the order, rows of the
#: minibatch (none: the update ends), number of the verdict, count of steps
_ORDER, _START, _STOP, _VERDICT, _STEP = 0, 1, 2, 3, 4
#: Of the critic's process: number of the order that it has answered, of the one that it has finished; does it work?
_ANSWER, _DONE, _READY = 8, 9, 10
#: Positions in the shared numbers: factor for the gradients (may be NaN), norm of the critic's gradients, its loss
_SCALE, _NORM, _LOSS = 0, 8, 9
#: A factor that means: leave the parameters as they are
_DROP = -1.0
#: Reads of a word before a waiting process yields the core: one or two milliseconds
_READS = 30_000
#: Seconds within which a new process must have shown that it works
_START_TIMEOUT = 5.0
#: Further reads, 0.1 ms and more each, after which a process that doesn't answer counts as stuck. Not seconds: those
#: also pass while a whole training is suspended.
_STUCK = 300_000


class CriticProcessFailed(RuntimeError):
    """
    The process can't be used any more: a new one may have inherited a lock that another thread held when it forked, one
    at work may have been killed. The message says what happened.
    """


class ValueLossGradient(Protocol):
    """Returns the critic's loss and its gradient. Must be picklable."""

    def __call__(self, values: np.ndarray, old_values: np.ndarray, returns: np.ndarray) -> tuple[float, np.ndarray]: ...


def can_fork() -> bool:
    """:return: whether there is a second core, and a system on which such a process works"""
    # Other processors may reorder the writes that another process sees
    ordered = platform.machine() in ("x86_64", "AMD64")
    has_cores = hasattr(os, "sched_getaffinity") and len(os.sched_getaffinity(0)) > 1
    can = ordered and has_cores and "fork" in multiprocessing.get_all_start_methods()
    return can and not th.cuda.is_initialized()


class CriticProcess:
    """
    Started with the object, ended with it.

    :param critic: the network, on parameters in shared memory
    :param adam: steps its parameters
    :param observations: a rollout's, as the network takes them
    :raises CriticProcessFailed: when the process does not start to work, and in all methods when it has died
    """

    def __init__(self, critic: Mlp, adam: AdamPart, observations: np.ndarray) -> None:
        context = multiprocessing.get_context("fork")
        n = len(observations)
        numbers = ((n,), np.dtype(np.float32))
        self._arrays = SharedArrays(
            context,
            {
                "words": ((16,), np.dtype(np.int64)),
                "numbers": ((16,), np.dtype(np.float64)),
                "indices": ((n,), np.dtype(np.int64)),
                "observations": (observations.shape, observations.dtype),
                "old_values": numbers,
                "returns": numbers,
            },
        )
        # Three times faster to read than arrays
        self._words: Any = memoryview(self._arrays["words"].data)
        self._numbers: Any = memoryview(self._arrays["numbers"].data)
        self._order = 0
        self._has_open_order = self._is_updating = False
        reader, self._writer = context.Pipe(duplex=False)
        half = _Half(critic, adam, self._arrays)
        self._process = context.Process(target=_run, args=(half, reader, self._writer, os.getpid()), daemon=True)
        with warnings.catch_warnings():
            # Python 3.12 and later warn of locks that other threads hold; the fork takes none of them
            warnings.simplefilter("ignore", DeprecationWarning)
            self._process.start()
        reader.close()
        self.close = weakref.finalize(self, _close, self._process, self._writer, os.getpid())
        self._wait_until_ready()

    def _wait_until_ready(self) -> None:
        end = time.monotonic() + _START_TIMEOUT
        while not self._words[_READY]:
            if time.monotonic() > end or not self._process.is_alive():
                self.close()
                raise CriticProcessFailed(f"did not work within {_START_TIMEOUT:g} s")
            time.sleep(1e-4)

    def is_alive(self) -> bool:
        return self._process.is_alive()

    def fits(self, observations: np.ndarray) -> bool:
        """:return: whether the shared memory fits such observations, and the last update has ended"""
        ours = self._arrays["observations"]
        return not self._is_updating and ours.shape == observations.shape and ours.dtype == observations.dtype

    def begin(
        self,
        observations: np.ndarray,
        old_values: np.ndarray,
        returns: np.ndarray,
        loss_gradient: ValueLossGradient,
        settings: AdamSettings,
    ) -> np.ndarray:
        """Begin an update; returns the observations in shared memory."""
        self._is_updating = True
        try:
            self._writer.send((loss_gradient, settings))
        except OSError:
            raise self.failure() from None
        for name, array in (("observations", observations), ("old_values", old_values), ("returns", returns)):
            np.copyto(self._arrays[name], array)
        return self._arrays["observations"]

    def shuffle(self, indices: np.ndarray) -> np.ndarray:
        """Set the order of the samples in this epoch; returns it in shared memory."""
        np.copyto(self._arrays["indices"], indices)
        return self._arrays["indices"]

    def order(self, start: int, stop: int) -> None:
        """Have the gradients of a minibatch computed, from one place among the indices to another."""
        self._words[_START], self._words[_STOP] = start, stop
        self._order += 1
        self._words[_ORDER] = self._order
        self._has_open_order = True

    def answer(self) -> tuple[float, float]:
        """:return: norm of the gradients, and loss"""
        self._wait(_ANSWER)
        return self._numbers[_NORM], self._numbers[_LOSS]

    def apply(self, scale: float, step: int) -> None:
        """
        Have the step made. It is done when the next order is answered or the update has ended.

        :param scale: what to multiply the gradients by, where it is below 1
        :param step: how many steps have been made, this one included
        """
        self._words[_STEP] = step
        self._judge(scale)

    def _judge(self, scale: float) -> None:
        self._numbers[_SCALE] = scale
        self._words[_VERDICT] = self._order
        self._has_open_order = False

    def drop(self) -> float | None:
        """:return: the loss of a minibatch that was ordered and not applied, and never will be now"""
        if not self._has_open_order:
            return None
        loss = self.answer()[1]
        self._judge(_DROP)
        return loss

    def end(self) -> None:
        """End an update."""
        self.drop()
        self._words[_START] = self._words[_STOP] = 0
        self._order += 1
        self._words[_ORDER] = self._order
        self._wait(_DONE)
        self._is_updating = False

    def _wait(self, place: int) -> None:
        reads = itertools.count()

        def check() -> None:
            if next(reads) > _STUCK or not self._process.is_alive():
                raise self.failure()

        _wait_for(self._words, place, self._order, check)

    def failure(self) -> CriticProcessFailed:
        """:return: what happened to a process that has died or is stuck; it changes no parameters from now on"""
        self._process.join(1.0)
        code = self._process.exitcode
        self._process.kill()
        self._process.join()
        if code is None:
            return CriticProcessFailed("did not answer")
        if code >= 0:
            return CriticProcessFailed(f"ended with exit code {code}")
        return CriticProcessFailed(f"was ended by {signal.Signals(-code).name}")


class _Half:
    """What the process does with a minibatch."""

    def __init__(self, critic: Mlp, adam: AdamPart, arrays: SharedArrays) -> None:
        self._critic, self._adam, self._arrays = critic, adam, arrays
        self._step = th.zeros(())

    def try_out(self) -> None:
        """Do once what a minibatch needs, and report that it worked."""
        rows = np.arange(min(len(self._arrays["indices"]), 256))
        self._differentiate(rows, lambda values, *_: (0.0, np.zeros_like(values)))
        self._adam.norm()
        self._arrays["words"][_READY] = 1

    def follow(
        self, order: int, loss_gradient: ValueLossGradient, settings: AdamSettings, check: Callable[[], None]
    ) -> int:
        """
        Run one update.

        :param order: number of the last order before it
        :param check: called now and then while waiting
        :return: number of its last order
        """
        words: Any = memoryview(self._arrays["words"].data)
        numbers: Any = memoryview(self._arrays["numbers"].data)
        while True:
            order += 1
            _wait_for(words, _ORDER, order, check)
            if words[_STOP] == 0:
                words[_DONE] = order
                return order
            rows = self._arrays["indices"][words[_START] : words[_STOP]]
            numbers[_LOSS] = self._differentiate(rows, loss_gradient)
            numbers[_NORM] = self._adam.norm()
            words[_ANSWER] = order
            _wait_for(words, _VERDICT, order, check)
            if numbers[_SCALE] != _DROP:
                self._adam.step(self._step.fill_(words[_STEP]), settings, numbers[_SCALE])

    def _differentiate(self, rows: np.ndarray, loss_gradient: ValueLossGradient) -> float:
        values = self._critic.forward(th.from_numpy(self._arrays["observations"][rows])).numpy()[:, 0]
        loss, gradient = loss_gradient(values, self._arrays["old_values"][rows], self._arrays["returns"][rows])
        self._critic.backward(th.from_numpy(gradient[:, None]))
        return loss


def _wait_for(words: Any, place: int, number: int, check: Callable[[], None]) -> None:
    reads = 0
    while words[place] < number:
        reads += 1
        if reads > _READS:
            check()
            time.sleep(1e-4)


def _run(half: _Half, reader: Connection, inherited: Connection, parent: int) -> None:
    gc.disable()  # it would write to, and so copy, the memory shared with the main process
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the main process decides what Ctrl-C means
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    inherited.close()
    th.set_num_threads(1)

    def check() -> None:
        if os.getppid() != parent:
            os._exit(0)

    order = 0
    with th.no_grad():
        half.try_out()
        while True:
            try:
                message = reader.recv()
            except (EOFError, OSError):
                message = None  # the main process has gone
            if message is None:
                os._exit(0)
            loss_gradient, settings = message
            order = half.follow(order, loss_gradient, settings, check)


def _close(process: BaseProcess, writer: Connection, owner: int) -> None:
    if os.getpid() != owner:
        return
    try:
        writer.send(None)
    except OSError:
        pass  # it has ended by itself
    writer.close()
    process.join(0.2)
    if process.is_alive():
        process.kill()
        process.join()
    process.close()
