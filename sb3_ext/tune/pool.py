"""Where trainings of a study run: processes of this machine, or a Ray cluster."""

from collections import Counter, defaultdict
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
        self._points: defaultdict[Any, list[Point]] = defaultdict(list)

    def see(self, event: Event) -> Event:
        """The event; for one loss too many, the end of the training."""
        key = event.key
        if isinstance(event, Reached):
            self._points[key].append(event.point)
            return event
        points = tuple(self._points.pop(key, ()))
        if isinstance(event, Lost):
            self._counts[key] += 1
            if self._counts[key] < _MAX_LOSSES:
                return event
            last = points[-1] if points else Point(0, 0.0, 0.0)
            error = f"lost {_MAX_LOSSES} times in a row: {event.reason}"
            event = Done(key, Curve(points, last.step, last.seconds, error=error))
        self.forget(key)
        return event

    def forget(self, key: Any) -> None:
        """It has ended by itself, or was stopped."""
        del self._counts[key]
        self._points.pop(key, None)


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
