"""Where trainings of a study run: processes of this machine, or a Ray cluster."""

from collections import Counter
from collections.abc import Iterable
from typing import Any, NamedTuple, Protocol

from sb3_ext.zoo.trial_training import Curve, Point, TrialTraining

__all__ = ["Done", "Event", "Losses", "Lost", "Pool", "Reached", "Refused"]

#: Times in a row that a training may be lost: one that exhausts the memory would be lost each time
_MAX_LOSSES = 3


class Reached(NamedTuple):
    """An evaluation. The training waits for :meth:`Pool.answer`, so that a pruner decides at the same point always."""

    key: Any
    point: Point


class Done(NamedTuple):
    """The training has ended; ``curve.error`` says if it diverged."""

    key: Any
    curve: Curve


class Lost(NamedTuple):
    """
    Its process or machine is gone: submit it again, with the same key. The pool replaces the worker itself. Instead of
    the third loss in a row there is a :class:`Done` with an error.
    """

    key: Any
    reason: str


class Refused(NamedTuple):
    """The section can't be trained: a mistake of the user, not of the training."""

    key: Any
    message: str


Event = Reached | Done | Lost | Refused


class Losses:
    """Counts how often each training was lost in a row."""

    def __init__(self) -> None:
        self._counts: Counter[Any] = Counter()

    def add(self, key: Any, reason: str, points: Iterable[Point]) -> Lost | Done:
        """:param points: that the training had reached"""
        self._counts[key] += 1
        if self._counts[key] < _MAX_LOSSES:
            return Lost(key, reason)
        self.forget(key)
        points = tuple(points)
        steps, seconds = (points[-1].step, points[-1].seconds) if points else (0, 0.0)
        return Done(key, Curve(points, steps, seconds, error=f"lost {_MAX_LOSSES} times in a row: {reason}"))

    def forget(self, key: Any) -> None:
        """It has ended by itself."""
        del self._counts[key]


class Pool(Protocol):
    """Runs trainings, one a worker."""

    @property
    def size(self) -> int:
        """Number of workers now. It may grow when a node joins a cluster."""

    def submit(self, key: Any, training: TrialTraining) -> None:
        """
        Start a training on a free worker.

        :param key: of its events
        """

    def answer(self, key: Any, go_on: bool) -> None:
        """To :class:`Reached`."""

    def wait(self, timeout: float) -> list[Event]:
        """The next events, in the order in which they happened; empty after ``timeout`` seconds."""

    def stop(self, key: Any) -> None:
        """End a training without waiting for its next evaluation. There are no more events of it."""

    def close(self) -> None:
        """End all workers at once."""
