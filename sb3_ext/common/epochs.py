"""The epochs of an update, minibatch by minibatch, and what happens when the KL divergence exceeds its limit."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any

from sb3_ext.common.fast_path import KLLimit, UpdateResult
from sb3_ext.common.updates import Backup, MinibatchMetrics

__all__ = ["KLGuard", "MinibatchUpdate"]


class KLGuard:
    """Checks the KL divergences of one update, and undoes the steps that exceed the limit where it says so."""

    def __init__(self, limit: KLLimit, back_up: Callable[[], Backup]) -> None:
        self._limit, self._back_up = limit, back_up
        self._inside = back_up() if limit.rollback else None

    def stops(self, kl: float) -> bool:
        """:return: whether the divergence exceeds the limit"""
        # Not `kl <= limit`: as in SB3, NaN does not stop the update (it must be seen, not hidden)
        exceeded = kl > self._limit.value
        if self._inside is not None:
            if exceeded:
                self._inside.restore()
            else:
                self._inside = self._back_up()
        return exceeded


class MinibatchUpdate(ABC):
    """
    An :class:`~sb3_ext.common.fast_path.UpdateBackend` that goes from minibatch to minibatch.

    :param back_up: copies the policy and its optimizer
    :param rollout_kl: measures the KL divergence over the whole rollout
    """

    def __init__(self, back_up: Callable[[], Backup], rollout_kl: Callable[[], float]) -> None:
        self._back_up, self._rollout_kl = back_up, rollout_kl
        self._metrics = MinibatchMetrics()

    def run(self, n_epochs: int, limit: KLLimit | None) -> UpdateResult:
        guard = None if limit is None else KLGuard(limit, self._back_up)
        n_steps, n_epochs_run, kl = 0, 0, 0.0
        for epoch in range(n_epochs):
            for batch in self.minibatches():
                kl = self.evaluate(batch)
                if guard is not None and limit is not None and limit.before_steps and guard.stops(kl):
                    return UpdateResult(n_steps, n_epochs_run, True, kl, self._metrics.values)
                self.step()
                n_steps += 1
                n_epochs_run = epoch + 1
            if guard is not None and limit is not None and limit.checks_after(epoch, n_epochs):
                kl = self._rollout_kl()
                if guard.stops(kl):
                    return UpdateResult(n_steps, n_epochs_run, True, kl, self._metrics.values)
        return UpdateResult(n_steps, n_epochs_run, False, kl, self._metrics.values)

    @abstractmethod
    def minibatches(self) -> Iterator[Any]:
        """:return: the rollout's minibatches, shuffled"""

    @abstractmethod
    def evaluate(self, batch: Any) -> float:
        """Compute the loss on a minibatch, and log it; returns the KL divergence."""

    @abstractmethod
    def step(self) -> None:
        """Make the gradient step for the minibatch that was evaluated last."""
