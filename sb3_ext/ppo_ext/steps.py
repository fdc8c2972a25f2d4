"""PPO's epochs on the plain path: SB3's own operations, minibatch by minibatch."""

from collections.abc import Callable, Iterator
from typing import Any

from stable_baselines3.common.policies import BasePolicy
from stable_baselines3.common.type_aliases import RolloutBufferSamples

from sb3_ext.common.epochs import MinibatchUpdate
from sb3_ext.common.updates import PolicyBackup, PolicyOutput, approx_kl, clip_and_step, clip_fraction
from sb3_ext.ppo_ext.loss import LossSettings, LossTerms, ppo_loss

__all__ = ["PlainUpdate"]


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
        super().__init__(lambda: PolicyBackup(policy), rollout_kl)
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
