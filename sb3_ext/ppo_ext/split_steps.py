"""Minibatches of the fast path with the critic's half in another process, and the choice whether that is faster."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch as th
from stable_baselines3.common.buffers import RolloutBuffer

from sb3_ext.common.updates import Backup, MinibatchMetrics
from sb3_ext.fast.critic_process import CriticProcessFailed
from sb3_ext.fast.faster_of import FasterOf
from sb3_ext.fast.flat import clipping_scale
from sb3_ext.fast.mlp_policy import FastMlpPolicy
from sb3_ext.ppo_ext.loss import LossSettings, PolicyGradient, policy_loss_gradient, total_loss, value_loss_gradient
from sb3_ext.ppo_ext.steps import MinibatchSteps, shuffled, take_rollout

__all__ = ["SplitSteps", "TimedSteps"]


class SplitSteps:
    """
    Has the results of :class:`~sb3_ext.ppo_ext.steps.FastSteps` to the last bit: each parameter sees the same
    operations. The step of the critic may still be under way when :meth:`apply` returns. All methods raise
    ``CriticProcessFailed`` when the process dies; :meth:`finish` then puts everything back to where the update began,
    random numbers included.

    :param policy: the policy that is updated
    :param buffer: the rollout
    :param batch_size: size of the minibatches
    :param settings: hyperparameters of the loss
    :param metrics: where to log
    :param normalize: turns values and returns into the units that the value loss is taken in
    """

    def __init__(
        self,
        policy: FastMlpPolicy,
        buffer: RolloutBuffer,
        batch_size: int,
        settings: LossSettings,
        metrics: MinibatchMetrics,
        normalize: Callable[[np.ndarray], np.ndarray],
    ) -> None:
        self._policy, self._batch_size = policy, batch_size
        self._settings, self._metrics = settings, metrics
        policy.start_update()
        observations, self._actions, samples = take_rollout(policy, buffer, normalize)
        self._adam, self._actor, self._critic = policy.split(observations)
        # The process may die in the middle of a step
        self._start, self._random_state = policy.back_up(), np.random.get_state()
        loss_gradient = functools.partial(value_loss_gradient, settings=settings)
        self._observations = self._critic.begin(
            observations, samples.old_values, samples.returns, loss_gradient, self._adam.settings
        )
        self._columns = np.stack([samples.old_log_prob, samples.advantages], axis=1)
        self._indices = np.zeros(0, np.int64)
        self._gradient = PolicyGradient(np.zeros(0), 0.0, {})

    def epoch(self) -> Iterator[slice]:
        n = len(self._observations)
        self._indices = self._critic.shuffle(shuffled(n))
        for start in range(0, n, self._batch_size):
            yield slice(start, min(start + self._batch_size, n))

    def look(self, batch: slice) -> float:
        self._critic.order(batch.start, batch.stop)
        rows = self._indices[batch]
        observations = th.from_numpy(self._observations[rows])
        log_prob, entropy = self._policy.evaluate_actor(observations, self._actions[rows])
        old_log_prob, advantages = np.ascontiguousarray(self._columns[rows].T)
        self._gradient = policy_loss_gradient(log_prob, entropy, old_log_prob, advantages, self._settings)
        self._metrics.add(**self._gradient.metrics)
        return self._gradient.metrics["approx_kl"]

    def apply(self, max_grad_norm: float) -> None:
        self._policy.backward_actor(self._gradient.log_prob, self._gradient.entropy)
        actor_norm = self._actor.norm()
        critic_norm, value_loss = self._critic.answer()
        norm = (actor_norm**2 + critic_norm**2) ** 0.5
        scale = clipping_scale(norm, max_grad_norm)
        step = self._adam.count_step()
        self._critic.apply(scale, int(step))
        self._actor.step(step, self._adam.settings, scale)
        self._log_value_loss(value_loss)
        self._metrics.add(grad_norm_actor=actor_norm, grad_norm_critic=critic_norm, grad_norm=norm)

    def _log_value_loss(self, value_loss: float) -> None:
        self._metrics.add(**total_loss(self._gradient, value_loss, self._settings))

    def back_up(self) -> Backup:
        raise NotImplementedError("The critic's step may be under way: take FastSteps where snapshots are needed.")

    def finish(self) -> None:
        try:
            value_loss = self._critic.end()
        except CriticProcessFailed:
            self._start.restore()
            np.random.set_state(self._random_state)
            raise
        if value_loss is not None:  # the last minibatch was looked at, and not stepped on
            self._log_value_loss(value_loss)
        self._policy.finish_update()


class TimedSteps:
    """
    Takes the time of an update.

    :param steps: its steps
    :param faster_of: is told the seconds for each minibatch
    :param way: which way the steps are made
    """

    def __init__(self, steps: MinibatchSteps, faster_of: FasterOf, way: int) -> None:
        self._steps, self._faster_of, self._way = steps, faster_of, way
        self.epoch, self.apply, self.back_up = steps.epoch, steps.apply, steps.back_up
        self._n_looks = 0
        self._start = time.perf_counter()

    def look(self, batch: Any) -> float:
        self._n_looks += 1
        return self._steps.look(batch)

    def finish(self) -> None:
        self._steps.finish()
        if self._n_looks:
            self._faster_of.tell(self._way, (time.perf_counter() - self._start) / self._n_looks)
