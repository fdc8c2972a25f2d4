"""Runs the trainings of a study on the nodes of a Ray cluster."""

import logging
import os
import socket
import threading
import time
from collections import deque
from typing import Any

from sb3_ext.common.usage_error import UsageError
from sb3_ext.tune.local_pool import LocalPool
from sb3_ext.tune.pool import Event, Losses, Lost, Reached
from sb3_ext.zoo.trial_training import TrialTraining

__all__ = ["RayPool"]

#: Seconds to connect to the cluster
_CONNECT_TIMEOUT = 30.0
#: Seconds between two looks at the nodes of the cluster
_LOOK_EVERY = 2.0
#: Workers in a row that may fail to start
_MAX_FAILURES = 3


class RayPool:
    """
    A :class:`~sb3_ext.tune.pool.Pool` with one worker per CPU of the cluster. A node that joins later gets work too.
    A worker is an actor that reserves a CPU and trains in a process beside it, as in a :class:`LocalPool`.

    :param address: of the cluster; ``auto``: the one of this machine, or ``RAY_ADDRESS``
    :raises UsageError: when Ray is not installed or the cluster can't be reached
    """

    def __init__(self, address: str = "auto") -> None:
        self._ray = _connect(address)
        self._make_actor = self._ray.remote(num_cpus=1, max_restarts=0)(_Actor).remote
        self._waiting: deque[tuple[Any, TrialTraining]] = deque()
        self._idle: list[Any] = []
        #: Actors by what tells that they are ready
        self._starting: dict[Any, Any] = {}
        #: Keys of trainings by what gets their next event, and their actors
        self._running: dict[Any, Any] = {}
        self._actors: dict[Any, Any] = {}
        self._losses = Losses()
        self._n_failures = 0
        self._size, self._looked = 0, -_LOOK_EVERY

    @property
    def size(self) -> int:
        if time.monotonic() - self._looked >= _LOOK_EVERY:
            self._size = int(self._ray.cluster_resources().get("CPU", 0))
            self._looked = time.monotonic()
        return self._size

    def submit(self, key: Any, training: TrialTraining) -> None:
        """It waits until there is a worker: a node may have gone that was there a moment ago."""
        self._waiting.append((key, training))
        self._call_workers()

    def answer(self, key: Any, go_on: bool) -> None:
        if key in self._actors:  # otherwise it is lost
            self._running[self._actors[key].answer.remote(key, go_on)] = key

    def wait(self, timeout: float) -> list[Event]:
        end = time.monotonic() + timeout
        while True:
            self._call_workers()
            references = [*self._running, *self._starting]
            left = max(end - time.monotonic(), 0.0)
            if not references:
                time.sleep(min(left, _LOOK_EVERY))
            ready = self._ray.wait(references, timeout=min(left, _LOOK_EVERY))[0] if references else []
            events = [event for reference in ready for event in self._read(reference)]
            if events or left == 0:
                return events

    def stop(self, key: Any) -> None:
        self._waiting = deque(item for item in self._waiting if item[0] != key)
        self._running = {reference: other for reference, other in self._running.items() if other != key}
        self._losses.forget(key)
        if key in self._actors:
            self._ray.kill(self._actors.pop(key))

    def close(self) -> None:
        """The connection stays until the program ends: Ray removes the working directory of a submitted job with it."""
        for actor in (*self._idle, *self._starting.values(), *self._actors.values()):
            self._ray.kill(actor)
        self._waiting.clear()
        self._idle, self._starting, self._running, self._actors = [], {}, {}, {}

    def _call_workers(self) -> None:
        """An idle one may be on a node that has gone, so it is asked first. A new one may never get a CPU."""
        while self._waiting and self._idle:
            self._ask(self._idle.pop())
        while len(self._starting) < len(self._waiting) and len(self._starting) + len(self._actors) < self.size:
            self._ask(self._make_actor())

    def _ask(self, actor: Any) -> None:
        self._starting[actor.ready.remote()] = actor

    def _read(self, reference: Any) -> list[Event]:
        if reference in self._starting:
            self._welcome(reference, self._starting.pop(reference))
            return []
        key = self._running.pop(reference)
        try:
            event = self._ray.get(reference)
        except self._ray.exceptions.RayError as error:
            self._ray.kill(self._actors.pop(key))  # it may live on where it can't be reached
            return [self._losses.see(Lost(key, f"its node is gone ({type(error).__name__})"))]
        if not isinstance(event, Reached):
            self._idle.append(self._actors.pop(key))
        return [self._losses.see(event)]

    def _welcome(self, reference: Any, actor: Any) -> None:
        """:raises UsageError: when no worker can be started"""
        try:
            self._ray.get(reference)
        except self._ray.exceptions.RayError as error:
            self._n_failures += 1
            if self._n_failures >= _MAX_FAILURES:
                advice = "Install sb3-ext on all nodes, in the same version."
                raise UsageError(f"--ray: workers can't be started: {_reason(error)}\n{advice}") from error
            return
        self._n_failures = 0
        if self._waiting:
            key, training = self._waiting.popleft()
            self._actors[key] = actor
            self._running[actor.start.remote(key, training)] = key
        else:
            self._idle.append(actor)


class _Actor:
    """On a node. Each call returns the next event of a training."""

    def __init__(self) -> None:
        self._pool = LocalPool(1)

    def ready(self) -> None:
        """It has been placed on a node that lives."""

    def start(self, key: Any, training: TrialTraining) -> Event:
        self._pool.submit(key, training)
        return self._next_event()

    def answer(self, key: Any, go_on: bool) -> Event:
        self._pool.answer(key, go_on)
        return self._next_event()

    def _next_event(self) -> Event:
        while not (events := self._pool.wait(60.0)):
            pass
        return events[0]


def _reason(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__


def _connect(address: str) -> Any:
    """Ray itself would try for minutes."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray
    except ImportError:
        raise UsageError("--ray needs Ray: pip install sb3-ext[ray]") from None
    if ray.is_initialized():
        return ray
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    failure: list[Exception] = []

    def connect() -> None:
        try:
            if colon:
                socket.create_connection((host.strip("[]"), int(port)), _CONNECT_TIMEOUT / 2).close()
            ray.init(address, log_to_driver=False, logging_level=logging.ERROR)
        # Ray raises many kinds, and each means the same
        except Exception as error:
            failure.append(error)

    thread = threading.Thread(target=connect, daemon=True)
    thread.start()
    thread.join(_CONNECT_TIMEOUT)
    if thread.is_alive() or failure:
        reason = _reason(failure[0]) if failure else f"no answer within {_CONNECT_TIMEOUT:g} s"
        start = "Start one with `ray start --head`, or give the address of a head node, such as 10.0.0.1:6379."
        raise UsageError(f"--ray {address}: no Ray cluster can be reached: {reason}\n{start}")
    return ray
