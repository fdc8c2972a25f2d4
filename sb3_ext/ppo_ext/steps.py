"""One minibatch of an update: what is done with it, by SB3's general means or on the fast path."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol

import numpy as np
import torch as th
from stable_baselines3.common.buffers import RolloutBuffer
from stable_baselines3.common.policies import BasePolicy
from stable_baselines3.common.type_aliases import RolloutBufferSamples

from sb3_ext.common.updates import (
    Backup,
    MinibatchMetrics,
    PolicyBackup,
    PolicyOutput,
    approx_kl,
    clip_and_step,
    clip_fraction,
)
from sb3_ext.fast.policy import FastPolicy, LossGradient
from sb3_ext.ppo_ext.loss import LossSettings, LossTerms, Samples, ppo_loss, ppo_loss_gradient

__all__ = ["FastSteps", "MinibatchSteps", "PlainSteps", "shuffled", "take_rollout"]


class MinibatchSteps(Protocol):
    """What an update asks for, minibatch by minibatch."""

    def epoch(self) -> Iterator[Any]:
        """:return: the rollout's minibatches, shuffled"""

    def look(self, batch: Any) -> float:
        """
        Compute the loss, and log it.

        :param batch: a minibatch
        :return: KL divergence on it
        """

    def apply(self, max_grad_norm: float) -> None:
        """
        Make the step for the minibatch that was looked at.

        :param max_grad_norm: the largest norm of the gradient
        """

    def back_up(self) -> Backup:
        """:return: a copy of the policy and its optimizer, to go back to"""

    def finish(self) -> None:
        """The update has made its last step, or was interrupted."""


class PlainSteps:
    """
    :param policy: the policy that is updated
    :param minibatches: starts an epoch
    :param evaluate: asks the policy about a minibatch, and gives its samples with the answer
    :param settings: hyperparameters of the loss
    :param metrics: where to log
    """

    def __init__(
        self,
        policy: BasePolicy,
        minibatches: Callable[[], Iterator[Any]],
        evaluate: Callable[[Any], tuple[PolicyOutput, RolloutBufferSamples]],
        settings: LossSettings,
        metrics: MinibatchMetrics,
    ) -> None:
        self._policy, self._evaluate = policy, evaluate
        self._settings, self._metrics = settings, metrics
        self._loss = th.zeros(())
        self.epoch = minibatches

    def look(self, batch: Any) -> float:
        terms = ppo_loss(*self._evaluate(batch), self._settings)
        self._loss = terms.total
        return self._log(terms)

    def apply(self, max_grad_norm: float) -> None:
        self._metrics.add(**clip_and_step(self._policy, self._loss, max_grad_norm))

    def back_up(self) -> Backup:
        return PolicyBackup(self._policy)

    def finish(self) -> None:
        pass

    @th.no_grad()
    def _log(self, terms: LossTerms) -> float:
        kl = approx_kl(terms.ratio, terms.log_ratio)
        self._metrics.add(
            approx_kl=kl,
            clip_fraction=clip_fraction(terms.ratio, self._settings.clip_range),
            policy_gradient_loss=terms.policy.item(),
            value_loss=terms.value.item(),
            entropy_loss=terms.entropy.item(),
            loss=terms.total.item(),
        )
        return kl


class FastSteps:
    """
    :param policy: the policy that is updated
    :param buffer: the rollout
    :param batch_size: size of the minibatches
    :param settings: hyperparameters of the loss
    :param metrics: where to log
    :param normalize: turns values and returns into the units that the value loss is taken in
    """

    def __init__(
        self,
        policy: FastPolicy,
        buffer: RolloutBuffer,
        batch_size: int,
        settings: LossSettings,
        metrics: MinibatchMetrics,
        normalize: Callable[[np.ndarray], np.ndarray],
    ) -> None:
        self._policy, self._batch_size = policy, batch_size
        self._settings, self._metrics = settings, metrics
        policy.start_update()
        self._observations, self._actions, samples = take_rollout(policy, buffer, normalize)
        self._columns = np.stack(samples, axis=1)
        self._gradient = LossGradient(np.zeros(0), np.zeros(0), 0.0, {})

    def epoch(self) -> Iterator[np.ndarray]:
        indices = shuffled(len(self._observations))
        for start in range(0, len(indices), self._batch_size):
            yield indices[start : start + self._batch_size]

    def look(self, batch: np.ndarray) -> float:
        values, log_prob, entropy = self._policy.evaluate(self._observations[batch], self._actions[batch])
        samples = Samples(*np.ascontiguousarray(self._columns[batch].T))
        self._gradient = ppo_loss_gradient(values, log_prob, entropy, samples, self._settings)
        self._metrics.add(**self._gradient.metrics)
        return self._gradient.metrics["approx_kl"]

    def apply(self, max_grad_norm: float) -> None:
        self._policy.backward(self._gradient)
        self._metrics.add(**self._policy.step(max_grad_norm))

    def back_up(self) -> Backup:
        return self._policy.back_up()

    def finish(self) -> None:
        self._policy.finish_update()


def take_rollout(
    policy: FastPolicy, buffer: RolloutBuffer, normalize: Callable[[np.ndarray], np.ndarray]
) -> tuple[Any, np.ndarray, Samples]:
    """
    :param policy: the policy that is updated
    :param buffer: the rollout
    :param normalize: turns values and returns into the units that the value loss is taken in
    :return: its observations, prepared, its actions, and what the loss needs beside them
    """
    _put_in_a_row(buffer)
    columns = (normalize(buffer.values), buffer.log_probs, buffer.advantages, normalize(buffer.returns))
    return policy.prepare(buffer.observations), buffer.actions, Samples(*(column.reshape(-1) for column in columns))


def shuffled(n: int) -> np.ndarray:
    """
    :param n: size of the rollout
    :return: the order of its samples in an epoch, from the random numbers that RolloutBuffer.get draws
    """
    return np.random.permutation(n)


def _put_in_a_row(buffer: RolloutBuffer) -> None:
    """What RolloutBuffer.get does when it is called first."""
    if not buffer.generator_ready:
        for name in ("observations", "actions", "values", "log_probs", "advantages", "returns"):
            setattr(buffer, name, buffer.swap_and_flatten(getattr(buffer, name)))
        buffer.generator_ready = True
