"""A2CExt: SB3's A2C with schedules and the fast path."""

from typing import Any, ClassVar, Literal

import numpy as np
import torch as th
from stable_baselines3 import A2C
from stable_baselines3.common.buffers import RolloutBuffer
from stable_baselines3.common.policies import ActorCriticPolicy, BasePolicy
from stable_baselines3.common.type_aliases import GymEnv, Schedule
from stable_baselines3.common.utils import explained_variance

from sb3_ext.common.algorithm import ExtAlgorithm
from sb3_ext.common.fast_path import FastPath
from sb3_ext.common.names import arguments_of, checked_keywords
from sb3_ext.common.policies import POLICIES
from sb3_ext.common.updates import in_order, rollout_kl
from sb3_ext.fast.path import CpuFastPath
from sb3_ext.fast.policy import FastLoss, FastPolicy, FastUpdate, LossKind
from sb3_ext.fast.rollouts import DeferredValuesRolloutBuffer, flatten_buffer

__all__ = ["A2CExt"]

#: SB3's names, and ours for the same
_LOGGED = {"entropy_loss": "entropy_loss", "policy_loss": "policy_gradient_loss", "value_loss": "value_loss"}


class A2CExt(ExtAlgorithm, A2C):
    """
    Advantage Actor Critic. From the same seed it trains as SB3's :class:`~stable_baselines3.A2C` does, whose
    parameters it takes. Most numbers can be schedules, and the KL divergence of each update is logged.

    :param policy: The policy model to use (MlpPolicy, CnnPolicy, ...)
    :param env: The environment to learn from (if registered in Gymnasium, can be str)
    :param fast: Take the fast path where it applies
    """

    policy_aliases: ClassVar[dict[str, type[BasePolicy]]] = POLICIES
    schedulable: ClassVar[tuple[str, ...]] = ("ent_coef", "vf_coef", "max_grad_norm", "gamma", "gae_lambda")
    fast_path_class: ClassVar[type[FastPath] | None] = CpuFastPath

    @checked_keywords
    def __init__(
        self,
        policy: str | type[ActorCriticPolicy],
        env: GymEnv | str | None,
        learning_rate: float | Schedule = 7e-4,
        n_steps: int = 5,
        gamma: float = 0.99,
        gae_lambda: float = 1.0,
        ent_coef: float = 0.0,
        vf_coef: float = 0.5,
        max_grad_norm: float = 0.5,
        rms_prop_eps: float = 1e-5,
        use_rms_prop: bool = True,
        use_sde: bool = False,
        sde_sample_freq: int = -1,
        rollout_buffer_class: type[RolloutBuffer] | None = None,
        rollout_buffer_kwargs: dict[str, Any] | None = None,
        normalize_advantage: bool = False,
        stats_window_size: int = 100,
        tensorboard_log: str | None = None,
        policy_kwargs: dict[str, Any] | None = None,
        verbose: int = 0,
        seed: int | None = None,
        device: th.device | str = "auto",
        _init_setup_model: bool = True,
        *,
        fast: bool | Literal["alone"] = True,
    ) -> None:
        self.fast = fast
        super().__init__(**arguments_of(A2C.__init__, locals()))

    def train(self) -> None:
        """Update the policy from the rollout buffer, in one step on all of it."""
        policy: FastPolicy | None = self.fast_policy
        if policy is None or type(self.rollout_buffer) is not DeferredValuesRolloutBuffer:
            super().train()
            self.logger.record("train/approx_kl", rollout_kl(self.policy, in_order(self.rollout_buffer)))
            return
        self.policy.set_training_mode(True)
        self._update_learning_rate(self.policy.optimizer)
        self._update_fast(policy)

    def _update_fast(self, policy: FastPolicy) -> None:
        buffer = self.rollout_buffer
        flatten_buffer(buffer)
        columns = (buffer.values, buffer.log_probs, buffer.advantages, buffer.returns)
        rollout = policy.prepare_rollout(buffer.observations, buffer.actions, columns)
        loss = FastLoss(
            # The steps are all the present policy's, with a ratio of 1
            kind=LossKind.POLICY_GRADIENT,
            normalize=self.normalize_advantage,
            ent_coef=self.ent_coef,
            vf_coef=self.vf_coef,
            max_norm=self.max_grad_norm,
        )
        result = FastUpdate(policy, rollout, loss, np.array([0, rollout.n])).run(1, None)
        self._n_updates += 1
        self.logger.record("train/n_updates", self._n_updates, exclude="tensorboard")
        self.logger.record(
            "train/explained_variance", explained_variance(buffer.values.flatten(), buffer.returns.flatten())
        )
        for name, of_kernel in _LOGGED.items():
            self.logger.record(f"train/{name}", result.metrics[of_kernel][0])
        if hasattr(self.policy, "log_std"):
            self.logger.record("train/std", th.exp(self.policy.log_std).mean().item())
        self.logger.record("train/approx_kl", policy.kl(rollout))
