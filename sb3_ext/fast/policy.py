"""A policy on the fast path: acting, evaluating and stepping, on the policy's own parameters."""

from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import numpy as np
import torch as th
from stable_baselines3.common.policies import ActorCriticPolicy

from sb3_ext.common.updates import Backup, GradientNorms, PolicyBackup
from sb3_ext.fast.flat import FlatAdam, FlatBackup, FlatParameters
from sb3_ext.fast.heads import make_head

__all__ = ["ActorCriticOutput", "FastPolicy", "LossGradient", "has_hooks"]

#: A rollout is evaluated in chunks of so many rows: larger ones leave the processor's caches
_CHUNK = 1024
#: Values, log-probabilities and entropies, one per sample
ActorCriticOutput = tuple[np.ndarray, np.ndarray, np.ndarray]


class LossGradient(NamedTuple):
    """Gradients of a loss with respect to a policy's output for a minibatch, and its metrics."""

    values: np.ndarray
    log_prob: np.ndarray
    #: The same for each sample
    entropy: float
    metrics: dict[str, float]


class FastPolicy(ABC):
    """:param policy: a policy that :func:`sb3_ext.fast.path.find_fast_policy` chose this class for"""

    def __init__(self, policy: ActorCriticPolicy) -> None:
        self._policy = policy
        self._flat = FlatParameters(policy)
        can_do_adam = FlatAdam.can_do(policy.optimizer, self._flat)
        self._adam = FlatAdam(policy.optimizer, self._flat) if can_do_adam else None
        self._head = make_head(policy.action_space, getattr(policy, "log_std", None))
        self._fingerprint = _fingerprint(policy)

    def is_of(self, policy: ActorCriticPolicy) -> bool:
        """:return: whether it was made for this policy, which has the same modules, parameters and optimizer as then"""
        return policy is self._policy and self._fingerprint == _fingerprint(policy)

    @abstractmethod
    def act(self, observations: th.Tensor) -> tuple[th.Tensor, th.Tensor | None, th.Tensor | None]:
        """
        :return: sampled actions, values and log-probabilities, as the policy's ``forward`` gives them; the last two may
            be left to :meth:`evaluate_rollout`
        """

    def predict(self, observations: th.Tensor, deterministic: bool) -> th.Tensor:
        """:return: actions, as the policy's ``_predict`` gives them"""
        return type(self._policy)._predict(self._policy, observations, deterministic)

    @th.no_grad()
    def evaluate_rollout(self, observations: np.ndarray, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """:return: values and log-probabilities"""
        values, log_probs = np.empty(len(actions), np.float32), np.empty(len(actions), np.float32)
        for start in range(0, len(actions), _CHUNK):
            part = slice(start, start + _CHUNK)
            values[part], log_probs[part], _ = self.evaluate(self.prepare(observations[part]), actions[part])
        return values, log_probs

    @abstractmethod
    def prepare(self, observations: np.ndarray) -> Any:
        """:return: a rollout's observations in a form from which an array of indices takes minibatches"""

    @abstractmethod
    def evaluate(self, observations: Any, actions: np.ndarray) -> ActorCriticOutput:
        """Evaluate a minibatch of prepared observations."""

    @abstractmethod
    def backward(self, gradient: LossGradient) -> None:
        """Write the parameters' gradients, given those with respect to the last output of :meth:`evaluate`."""

    def start_update(self) -> None:
        """To be called before the first step of an update."""
        self._flat.bind_gradients()
        if self._adam is not None:
            self._adam.start()

    def step(self, max_grad_norm: float, separate: bool = False) -> GradientNorms:
        """
        Clip the gradients and make the optimizer's step.

        :param separate: clip the norms of actor and critic separately, not that of all gradients together
        """
        clip = self._flat.clip_gradients_separately if separate else self._flat.clip_gradients
        norms = clip(max_grad_norm)
        if self._adam is not None:
            self._adam.step()
        else:
            self._policy.optimizer.step()
        return norms

    def back_up(self) -> Backup:
        return PolicyBackup(self._policy) if self._adam is None else FlatBackup(self._adam)

    def finish_update(self) -> None:
        """To be called when an update has made its last step."""
        if self._adam is not None:
            self._adam.finish()

    def close(self) -> None:  # noqa: B027  most have nothing to end
        """End helper processes; the next update starts them again."""


def _fingerprint(policy: ActorCriticPolicy) -> list[Any]:
    """Changes when someone replaces, moves, freezes or hooks anything that the fast path relies on."""
    marks: list[Any] = [id(policy.optimizer)]
    modules: list[th.nn.Module] = [policy]
    # Our own traversal: Module.modules() and .parameters() take ten times as long
    while modules:
        module = modules.pop()
        marks.append((id(module), has_hooks(module)))
        marks += [
            (id(p), p.data_ptr(), p.requires_grad, bool(p._backward_hooks))
            for p in module._parameters.values()
            if p is not None
        ]
        modules += [child for child in module._modules.values() if child is not None]
    return marks


def has_hooks(module: th.nn.Module) -> bool:
    hooks = (module._forward_hooks, module._forward_pre_hooks, module._backward_hooks, module._backward_pre_hooks)
    return any(hooks)
