"""An MLP policy as the fast path sees it: actor, critic, distribution and optimizer, on the policy's own parameters."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch as th
from stable_baselines3.common.policies import ActorCriticPolicy
from torch import nn

from sb3_ext.common.gradients import GradientNorms
from sb3_ext.common.snapshot import PolicySnapshot, Snapshot
from sb3_ext.fast.flat import FlatAdam, FlatParameters, FlatSnapshot
from sb3_ext.fast.heads import make_head
from sb3_ext.fast.mlp import Mlp

__all__ = ["FastPolicy", "LossGradient"]

#: Rows that a whole rollout is evaluated in at a time: larger ones leave the processor's caches.
_CHUNK = 1024


class LossGradient(NamedTuple):
    """Gradients of a loss with respect to a policy's answers on a minibatch, and what is logged of it."""

    values: np.ndarray
    log_prob: np.ndarray
    #: The same for each sample
    entropy: float
    metrics: dict[str, float]


class FastPolicy:
    """
    :param policy: a policy that :func:`sb3_ext.fast.applies.why_not` has nothing against
    """

    def __init__(self, policy: ActorCriticPolicy) -> None:
        self._policy = policy
        self._flat = FlatParameters(policy)
        can_flat_adam = FlatAdam.can_do(policy.optimizer)
        self._adam = FlatAdam(policy.optimizer, self._flat) if can_flat_adam else None
        extractor = policy.mlp_extractor
        self._actor = Mlp(*_layers(extractor.policy_net, policy.action_net))
        self._critic = Mlp(*_layers(extractor.value_net, policy.value_net))
        head = make_head(policy.action_space, getattr(policy, "log_std", None))
        assert head is not None
        self._head = head

    def is_bound(self) -> bool:
        """Whether the policy still works on the parameters that are known here."""
        return self._flat.is_bound()

    def act(self, observations: th.Tensor) -> th.Tensor:
        """
        :param observations: one for each environment
        :return: sampled actions, as the policy's ``forward`` gives them
        """
        return th.from_numpy(self._head.sample(self._actor.forward(_rows(observations))))

    def evaluate_rollout(self, observations: np.ndarray, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """
        :param observations: those of a rollout, one row each
        :param actions: the actions taken
        :return: values and log-probabilities
        """
        values, log_probs = np.empty(len(actions), np.float32), np.empty(len(actions), np.float32)
        for start in range(0, len(actions), _CHUNK):
            part = slice(start, start + _CHUNK)
            values[part], log_probs[part], _ = self.evaluate(th.from_numpy(observations[part]), actions[part])
        return values, log_probs

    def evaluate(self, observations: th.Tensor, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """
        :param observations: a batch of them
        :param actions: the actions taken
        :return: values, log-probabilities and entropies
        """
        rows = _rows(observations)
        values = self._critic.forward(rows).numpy()[:, 0]
        return values, *self._head.evaluate(self._actor.forward(rows), actions)

    def start_update(self) -> None:
        """To be called before the first step of an update."""
        self._flat.bind_gradients()
        if self._adam is not None:
            self._adam.start()

    def backward(self, gradient: LossGradient) -> None:
        """
        Write the parameters' gradients.

        :param gradient: with respect to what :meth:`evaluate` said last
        """
        self._actor.backward(self._head.backward(gradient.log_prob, gradient.entropy))
        self._critic.backward(th.from_numpy(gradient.values[:, None]))

    def step(self, max_grad_norm: float, apart: bool = False) -> GradientNorms:
        """
        Clip the gradients, and let the optimizer make its step.

        :param max_grad_norm: the largest norm
        :param apart: of actor and critic each by itself, not of all together
        """
        clip = self._flat.clip_gradients_apart if apart else self._flat.clip_gradients
        norms = clip(max_grad_norm)
        if self._adam is not None:
            self._adam.step()
        else:
            self._policy.optimizer.step()
        return norms

    def take_snapshot(self) -> Snapshot:
        """:return: a copy of the parameters and of the optimizer's state"""
        return PolicySnapshot(self._policy) if self._adam is None else FlatSnapshot(self._adam)

    def finish_update(self) -> None:
        """To be called when an update has made its last step."""
        if self._adam is not None:
            self._adam.finish()


def _rows(observations: th.Tensor) -> th.Tensor:
    """One float vector for each observation, as SB3's preprocessing and its FlattenExtractor make them."""
    return observations.flatten(1).float()


def _layers(hidden: nn.Sequential, last: Any) -> tuple[list[nn.Linear], type[nn.Module] | None]:
    linear = [layer for layer in hidden if isinstance(layer, nn.Linear)]
    activations = [type(layer) for layer in hidden if not isinstance(layer, nn.Linear)]
    return [*linear, last], activations[0] if activations else None
