"""How an update of PPO runs its epochs: with SB3's means on the plain path, with arrays on the fast path."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from stable_baselines3.common.buffers import RolloutBuffer
from stable_baselines3.common.policies import BasePolicy
from stable_baselines3.common.type_aliases import RolloutBufferSamples

from sb3_ext.common.fast_path import EpochResult, KLLimit
from sb3_ext.common.updates import (
    MinibatchMetrics,
    PolicyBackup,
    PolicyOutput,
    approx_kl,
    clip_and_step,
    clip_fraction,
)
from sb3_ext.fast.policy import FastPolicy, LossGradient
from sb3_ext.ppo_ext.kl import KLGuard
from sb3_ext.ppo_ext.loss import LossSettings, LossTerms, Samples, ppo_loss, ppo_loss_gradient

__all__ = ["MinibatchUpdate", "NumpyUpdate", "PlainUpdate", "RolloutArrays", "flatten_rollout"]


class MinibatchUpdate(ABC):
    """
    An :class:`~sb3_ext.common.fast_path.UpdateBackend` that goes from minibatch to minibatch.

    :param guard: checks the KL divergences
    :param rollout_kl: measures the KL divergence over the whole rollout
    """

    def __init__(self, guard: KLGuard, rollout_kl: Callable[[], float]) -> None:
        self.rollout_kl = rollout_kl
        self._guard = guard
        self._metrics = MinibatchMetrics()

    def run_epoch(self, limit: KLLimit | None) -> EpochResult:
        self._metrics = MinibatchMetrics()
        self._guard.start(limit)
        n_steps, stopped, kl = 0, False, 0.0
        for batch in self.minibatches():
            kl = self.evaluate(batch)
            if limit is not None and limit.before_steps and self._guard.stops(kl, limit):
                stopped = True
                break
            self.step()
            n_steps += 1
        if limit is not None and limit.after_epoch and not stopped:
            kl = self.rollout_kl()
            stopped = self._guard.stops(kl, limit)
        return EpochResult(n_steps, stopped, kl, self._metrics.values)

    @abstractmethod
    def minibatches(self) -> Iterator[Any]:
        """:return: the rollout's minibatches, shuffled"""

    @abstractmethod
    def evaluate(self, batch: Any) -> float:
        """Compute the loss on a minibatch, and log it; returns the KL divergence."""

    @abstractmethod
    def step(self) -> None:
        """Make the gradient step for the minibatch that was evaluated last."""

    def finish(self) -> None:  # noqa: B027  not all have something to do
        pass


class PlainUpdate(MinibatchUpdate):
    """
    :param minibatches: starts an epoch
    :param evaluate: returns the policy's output for a minibatch, and the samples that it is for
    """

    def __init__(
        self,
        policy: BasePolicy,
        minibatches: Callable[[], Iterator[Any]],
        evaluate: Callable[[Any], tuple[PolicyOutput, RolloutBufferSamples]],
        settings: LossSettings,
        max_grad_norm: float,
        rollout_kl: Callable[[], float],
    ) -> None:
        super().__init__(KLGuard(lambda: PolicyBackup(policy)), rollout_kl)
        self._policy, self._minibatches, self._evaluate = policy, minibatches, evaluate
        self._settings, self._max_grad_norm = settings, max_grad_norm
        self._terms: LossTerms | None = None

    def minibatches(self) -> Iterator[Any]:
        return self._minibatches()

    def evaluate(self, batch: Any) -> float:
        self._terms = terms = ppo_loss(*self._evaluate(batch), self._settings)
        kl = approx_kl(terms.ratio.detach(), terms.log_ratio.detach())
        self._metrics.add(
            approx_kl=kl,
            clip_fraction=clip_fraction(terms.ratio.detach(), self._settings.clip_range),
            policy_gradient_loss=terms.policy.item(),
            value_loss=terms.value.item(),
            entropy_loss=terms.entropy.item(),
            loss=terms.total.item(),
        )
        return kl

    def step(self) -> None:
        assert self._terms is not None
        self._metrics.add(**clip_and_step(self._policy, self._terms.total, self._max_grad_norm))


class RolloutArrays(NamedTuple):
    """A rollout on the fast path, with one row per sample."""

    observations: Any
    actions: np.ndarray
    samples: Samples


def flatten_rollout(
    policy: FastPolicy, buffer: RolloutBuffer, normalize: Callable[[np.ndarray], np.ndarray]
) -> RolloutArrays:
    """:param normalize: scales values and returns to the units of the value loss"""
    _flatten_buffer(buffer)
    columns = (normalize(buffer.values), buffer.log_probs, buffer.advantages, normalize(buffer.returns))
    samples = Samples(*(column.reshape(-1) for column in columns))
    return RolloutArrays(policy.prepare(buffer.observations), buffer.actions, samples)


def _flatten_buffer(buffer: RolloutBuffer) -> None:
    """What RolloutBuffer.get does when it is called first."""
    if not buffer.generator_ready:
        for name in ("observations", "actions", "values", "log_probs", "advantages", "returns"):
            setattr(buffer, name, buffer.swap_and_flatten(getattr(buffer, name)))
        buffer.generator_ready = True


class NumpyUpdate(MinibatchUpdate):
    """On the fast path, in this process."""

    def __init__(
        self,
        policy: FastPolicy,
        rollout: RolloutArrays,
        batch_size: int,
        settings: LossSettings,
        max_grad_norm: float,
        rollout_kl: Callable[[], float],
    ) -> None:
        super().__init__(KLGuard(policy.back_up), rollout_kl)
        self._policy, self._batch_size = policy, batch_size
        self._settings, self._max_grad_norm = settings, max_grad_norm
        policy.start_update()
        self._observations, self._actions, samples = rollout
        self._columns = np.stack(samples, axis=1)
        self._gradient = LossGradient(np.zeros(0), np.zeros(0), 0.0, {})

    def minibatches(self) -> Iterator[Any]:
        indices = np.random.permutation(len(self._observations))
        for start in range(0, len(indices), self._batch_size):
            yield indices[start : start + self._batch_size]

    def evaluate(self, batch: Any) -> float:
        output = self._policy.evaluate(self._observations[batch], self._actions[batch])
        samples = Samples(*np.ascontiguousarray(self._columns[batch].T))
        self._gradient = ppo_loss_gradient(*output, samples, self._settings)
        self._metrics.add(**self._gradient.metrics)
        return self._gradient.metrics["approx_kl"]

    def step(self) -> None:
        self._policy.backward(self._gradient)
        self._metrics.add(**self._policy.step(self._max_grad_norm))

    def finish(self) -> None:
        self._policy.finish_update()
