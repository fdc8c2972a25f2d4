"""Rollouts in which acting needs only the actor: values and log-probabilities are computed for all steps at the end."""

from collections.abc import Callable

import numpy as np
import torch as th
from stable_baselines3.common.buffers import RolloutBuffer

from sb3_ext.fast.kernel import WHY_NOT, gae

__all__ = ["DeferredValuesBuffer", "DeferredValuesRolloutBuffer", "flatten_buffer"]

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
