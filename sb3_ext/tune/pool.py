"""Where trainings of a study run: processes of this machine, or a Ray cluster."""

from typing import Any, NamedTuple, Protocol

from sb3_ext.zoo.trial_training import Curve, Point, TrialTraining

__all__ = ["Done", "Lost", "Pool", "Reached", "Refused"]


class Reached(NamedTuple):
    """An evaluation. The training waits for :meth:`Pool.answer`, so that a pruner decides at the same point always."""

    key: Any
    point: Point


class Done(NamedTuple):
    """The training has ended; ``curve.error`` says if it diverged."""

    key: Any
    curve: Curve


class Lost(NamedTuple):
    """Its process or machine is gone: the training has to start again. The pool replaces the worker itself."""

    key: Any
    reason: str


class Refused(NamedTuple):
    """The section can't be trained: a mistake of the user, not of the training."""

    key: Any
    message: str


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

    def wait(self, timeout: float) -> list[Reached | Done | Lost | Refused]:
        """The next events, in the order in which they happened; empty after ``timeout`` seconds."""

    def stop(self, key: Any) -> None:
        """End a training without waiting for its next evaluation. There are no more events of it."""

    def close(self) -> None:
        """End all workers at once."""
