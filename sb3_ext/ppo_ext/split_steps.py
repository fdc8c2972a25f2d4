"""Epochs on the fast path with the critic's half in another process, and the choice whether that is faster."""

import functools
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch as th

from sb3_ext.common.fast_path import EpochResult, KLLimit, UpdateBackend
from sb3_ext.fast.adaptive_choice import AdaptiveChoice
from sb3_ext.fast.critic_process import CriticProcessFailed
from sb3_ext.fast.flat import clipping_scale
from sb3_ext.fast.mlp_policy import FastMlpPolicy
from sb3_ext.ppo_ext.loss import PolicyGradient, policy_loss_gradient, total_loss, value_loss_gradient
from sb3_ext.ppo_ext.steps import NumpyUpdate, RolloutArrays

__all__ = ["SplitUpdate", "TimedUpdate"]


class SplitUpdate(NumpyUpdate):
    """
    Has the same results to the last bit: each parameter sees the same operations. The critic's step may still be under
    way when :meth:`step` returns, so there is no rollback. All methods raise ``CriticProcessFailed`` when the process
    dies; :meth:`finish` then restores the state at the start of the update, random numbers included.
    """

    _policy: FastMlpPolicy

    def __init__(self, policy: FastMlpPolicy, rollout: RolloutArrays, *args: Any) -> None:
        super().__init__(policy, rollout, *args)
        observations, _, samples = rollout
        self._adam, self._actor, self._critic = policy.split(observations)
        # The process may die in the middle of a step
        self._start, self._random_state = policy.back_up(), np.random.get_state()
        loss_gradient = functools.partial(value_loss_gradient, settings=self._settings)
        self._observations = self._critic.begin(
            observations, samples.old_values, samples.returns, loss_gradient, self._adam.settings
        )
        self._columns = np.stack([samples.old_log_prob, samples.advantages], axis=1)
        self._indices = np.zeros(0, np.int64)
        self._actor_gradient = PolicyGradient(np.zeros(0), 0.0, {})

    def run_epoch(self, limit: KLLimit | None) -> EpochResult:
        result = super().run_epoch(limit)
        value_loss = self._critic.drop()
        if value_loss is not None:  # of a minibatch that was evaluated, and no step made on it
            self._log_value_loss(value_loss)
        return result

    def minibatches(self) -> Iterator[slice]:
        n = len(self._observations)
        self._indices = self._critic.shuffle(np.random.permutation(n))
        for start in range(0, n, self._batch_size):
            yield slice(start, min(start + self._batch_size, n))

    def evaluate(self, batch: slice) -> float:
        self._critic.order(batch.start, batch.stop)
        rows = self._indices[batch]
        observations = th.from_numpy(self._observations[rows])
        log_prob, entropy = self._policy.evaluate_actor(observations, self._actions[rows])
        old_log_prob, advantages = np.ascontiguousarray(self._columns[rows].T)
        gradient = policy_loss_gradient(log_prob, entropy, old_log_prob, advantages, self._settings)
        self._actor_gradient = gradient
        self._metrics.add(**gradient.metrics)
        return gradient.metrics["approx_kl"]

    def step(self) -> None:
        self._policy.backward_actor(self._actor_gradient.log_prob, self._actor_gradient.entropy)
        actor_norm = self._actor.norm()
        critic_norm, value_loss = self._critic.answer()
        norm = (actor_norm**2 + critic_norm**2) ** 0.5
        scale = clipping_scale(norm, self._max_grad_norm)
        step = self._adam.count_step()
        self._critic.apply(scale, int(step))
        self._actor.step(step, self._adam.settings, scale)
        self._log_value_loss(value_loss)
        self._metrics.add(grad_norm_actor=actor_norm, grad_norm_critic=critic_norm, grad_norm=norm)

    def _log_value_loss(self, value_loss: float) -> None:
        self._metrics.add(**total_loss(self._actor_gradient, value_loss, self._settings))

    def finish(self) -> None:
        try:
            self._critic.end()
        except CriticProcessFailed:
            self._start.restore()
            np.random.set_state(self._random_state)
            raise
        self._policy.finish_update()


class TimedUpdate:
    """Measures the time of an update."""

    def __init__(self, update: UpdateBackend, choice: AdaptiveChoice, option: int) -> None:
        self._update, self._choice, self._option = update, choice, option
        self.rollout_kl = update.rollout_kl
        self._n_minibatches = 0
        self._start = time.perf_counter()

    def run_epoch(self, limit: KLLimit | None) -> EpochResult:
        result = self._update.run_epoch(limit)
        self._n_minibatches += len(result.metrics["approx_kl"])
        return result

    def finish(self) -> None:
        self._update.finish()
        if self._n_minibatches:
            self._choice.tell(self._option, (time.perf_counter() - self._start) / self._n_minibatches)
