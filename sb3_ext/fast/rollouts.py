"""Rollouts in which acting needs only the actor: values and log-probabilities are computed for all steps at the end.

SB3's own loop collects them. At each step it asks the policy's ``forward`` for actions, values and log-probabilities;
here it gets the actions alone, and a buffer that fills in the rest when the rollout is complete.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch as th
from stable_baselines3.common.buffers import RolloutBuffer
from stable_baselines3.common.on_policy_algorithm import OnPolicyAlgorithm

from sb3_ext.fast.kernel import WHY_NOT, gae
from sb3_ext.fast.policy import FastPolicy

__all__ = ["DeferredValuesBuffer", "DeferredValuesRolloutBuffer", "actor_only", "flatten_buffer"]

#: Returns the values and log-probabilities of a rollout's observations and actions
Evaluate = Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]


class DeferredValuesBuffer(RolloutBuffer):
    """
    Mixin, before a rollout buffer in the bases. Steps added without values get their values and log-probabilities at
    the end of the rollout; otherwise it is that buffer.
    """

    #: Set during a rollout
    evaluate: Evaluate | None = None
    #: Called when a rollout is complete, while its arrays are ordered by step and environment
    on_complete: Callable[[RolloutBuffer], None] | None = None
    _has_gaps = False

    def add(
        self,
        obs: np.ndarray,
        action: np.ndarray,
        reward: np.ndarray,
        episode_start: np.ndarray,
        value: th.Tensor | None,
        log_prob: th.Tensor | None,
    ) -> None:
        if value is not None and log_prob is not None:
            super().add(obs, action, reward, episode_start, value, log_prob)
            return
        self._has_gaps = True
        step = self.pos
        self.observations[step] = obs.reshape(self.observations[step].shape)
        self.actions[step] = action.reshape(self.actions[step].shape)
        self.rewards[step] = reward
        self.episode_starts[step] = episode_start
        self.pos += 1
        self.full = self.pos == self.buffer_size

    def compute_returns_and_advantage(self, last_values: th.Tensor, dones: np.ndarray) -> None:
        self._complete()
        if WHY_NOT is not None:
            super().compute_returns_and_advantage(last_values, dones)
            return
        last = last_values.detach().cpu().numpy().astype(np.float32, copy=False).reshape(-1)
        self.returns = np.empty_like(self.advantages)
        gae(
            self.rewards,
            self.values,
            self.episode_starts,
            np.ascontiguousarray(last),
            dones.astype(np.float32),
            self.advantages,
            self.returns,
            self.buffer_size,
            self.n_envs,
            self.gamma,
            self.gae_lambda,
        )

    def _complete(self) -> None:
        if self._has_gaps:
            assert self.evaluate is not None
            self._has_gaps = False
            n = self.buffer_size * self.n_envs
            observations = self.observations.reshape(n, *self.observations.shape[2:])
            values, log_probs = self.evaluate(observations, self.actions.reshape(n, -1))
            self.values[:] = values.reshape(self.values.shape)
            self.log_probs[:] = log_probs.reshape(self.log_probs.shape)
        if self.on_complete is not None:
            self.on_complete(self)


class DeferredValuesRolloutBuffer(DeferredValuesBuffer, RolloutBuffer):
    """SB3's buffer with deferred values."""


def flatten_buffer(buffer: RolloutBuffer) -> None:
    """What RolloutBuffer.get does when it is called first."""
    if not buffer.generator_ready:
        for name in ("observations", "actions", "values", "log_probs", "advantages", "returns"):
            setattr(buffer, name, buffer.swap_and_flatten(getattr(buffer, name)))
        buffer.generator_ready = True


@contextmanager
def actor_only(
    algorithm: OnPolicyAlgorithm,
    fast: FastPolicy,
    buffer: DeferredValuesBuffer,
) -> Iterator[None]:
    """
    Let the policy only act when the rollout's loop asks it. Callbacks that ask it themselves get the usual answer.

    :param fast: acts, and returns the values and log-probabilities that were left out
    """
    policy = algorithm.policy
    full_forward = policy.forward

    def forward(observations: th.Tensor, *args: Any, **kwargs: Any) -> tuple[th.Tensor, Any, Any]:
        last = algorithm._last_obs
        if isinstance(last, np.ndarray) and observations.data_ptr() == last.__array_interface__["data"][0]:
            return fast.act(observations)
        return full_forward(observations, *args, **kwargs)

    policy.forward = forward  # type: ignore[method-assign, assignment]
    policy.predict_values = fast.predict_values  # type: ignore[method-assign, assignment]
    buffer.evaluate = fast.evaluate_rollout
    try:
        yield
    finally:
        del policy.forward, policy.predict_values
        buffer.evaluate = None
