"""A2CExt: the update is SB3's own."""

from __future__ import annotations

from typing import ClassVar

from stable_baselines3 import A2C
from stable_baselines3.common.policies import BasePolicy

from sb3_ext.common.names import extends
from sb3_ext.common.policies import POLICIES
from sb3_ext.common.updates import in_order, rollout_kl
from sb3_ext.fast.algorithm import FastAlgorithm

__all__ = ["A2CExt"]


class A2CExt(FastAlgorithm, A2C):
    """
    Advantage Actor Critic, with a schedule wherever a number may stand and the KL divergence of each update logged. It
    takes A2C's parameters, and trains as SB3's :class:`~stable_baselines3.A2C` does from the same seed.
    """

    policy_aliases: ClassVar[dict[str, type[BasePolicy]]] = POLICIES
    schedulable: ClassVar[tuple[str, ...]] = ("ent_coef", "vf_coef", "max_grad_norm", "gamma", "gae_lambda")
    __init__ = extends(A2C.__init__)(FastAlgorithm.__init__)

    def train(self) -> None:
        super().train()
        self.logger.record("train/approx_kl", rollout_kl(self.policy, in_order(self.rollout_buffer)))
