"""PPOExt: SB3's PPO with extras that are off by default."""

from typing import Any, ClassVar, Literal

import numpy as np
import torch as th
from stable_baselines3 import PPO
from stable_baselines3.common.buffers import RolloutBuffer
from stable_baselines3.common.policies import ActorCriticPolicy, BasePolicy
from stable_baselines3.common.type_aliases import GymEnv, Schedule

from sb3_ext.common.fast_path import FastPath, UpdateBackend
from sb3_ext.common.names import arguments_of, checked_keywords
from sb3_ext.common.policies import POLICIES
from sb3_ext.common.popart import PopArtHead
from sb3_ext.fast.path import CpuFastPath
from sb3_ext.fast.policy import FastLoss, FastPolicy, FastUpdate, LossKind, Rollout, minibatch_bounds
from sb3_ext.fast.rollouts import DeferredValuesRolloutBuffer, flatten_buffer
from sb3_ext.ppo_ext.loss import LossSettings
from sb3_ext.ppo_ext.update import PPOUpdate

__all__ = ["PPOExt"]


class PPOExt(PPOUpdate, PPO):
    """
    Proximal Policy Optimization with extras. With all of them off, which is the default, it trains as SB3's
    :class:`~stable_baselines3.PPO` does from the same seed (to the last bit with ``fast=False``). Numbers of the loss,
    ``target_kl``, ``gamma`` and ``gae_lambda`` can be schedules too.

    :param policy: The policy model to use (MlpPolicy, CnnPolicy, ...)
    :param env: The environment to learn from (if registered in Gymnasium, can be str)
    :param learning_rate: The learning rate, it can be a schedule
    :param n_steps: The number of steps to run for each environment per update
    :param batch_size: Minibatch size
    :param n_epochs: Number of epochs when optimizing the surrogate loss
    :param gamma: Discount factor
    :param gae_lambda: Factor for the trade-off of bias and variance of Generalized Advantage Estimation
    :param clip_range: Clipping parameter, it can be a schedule
    :param clip_range_vf: Clipping parameter for the value function, it can be a schedule; it depends on the scale of
        the rewards. ``None``: no clipping
    :param normalize_advantage: Whether to normalize the advantages of each minibatch
    :param ent_coef: Entropy coefficient of the loss
    :param vf_coef: Value function coefficient of the loss
    :param max_grad_norm: The maximum norm of the gradient
    :param use_sde: Whether to use generalized State Dependent Exploration (gSDE)
    :param sde_sample_freq: Sample a new noise matrix every n steps when using gSDE; -1: only at the start of a rollout
    :param rollout_buffer_class: Rollout buffer class to use
    :param rollout_buffer_kwargs: Keyword arguments of the rollout buffer
    :param target_kl: Limit of the KL divergence of an update, before ``kl_stop_factor``; ``None``: no limit
    :param stats_window_size: Number of episodes to average in the logs of rewards and lengths
    :param tensorboard_log: The log location for TensorBoard
    :param policy_kwargs: Additional arguments of the policy
    :param verbose: Verbosity level: 0 for no output, 1 for info messages, 2 for debug messages
    :param seed: Seed for the pseudo random generators
    :param device: Device (cpu, cuda, ...) on which the code should run
    :param kl_stop_factor: With ``target_kl`` set, an update ends when the KL divergence exceeds ``kl_stop_factor *
        target_kl``; SB3 has 1.5 hard-coded
    :param kl_stop_scope: ``"minibatch"`` (as SB3) checks each minibatch before the step on it; ``"epoch"`` measures the
        whole rollout after each epoch, which is less noisy and costs a forward pass
    :param kl_rollback: When the limit is exceeded, go back to the last parameters and optimizer state inside it, which
        undoes the step that went too far; needs ``target_kl``
    :param kl_adaptive_lr: Target KL divergence of each update: the learning rate is divided by 1.5 after an update with
        more than twice that, and multiplied by 1.5 after one with less than half
    :param kl_adaptive_lr_bounds: Smallest and largest adapted learning rate
    :param reset_optimizer: ``"lr_jump"`` clears the optimizer's moments when the learning rate doubles or halves from
        one update to the next
    :param value_loss: ``"mse"``, or ``"huber"``, which is less sensitive to outliers
    :param normalize_values: Learn values in units of the returns' standard deviation (PopArt)
    :param fast: Take the fast path where it applies; ``"alone"``: on one thread
    """

    policy_aliases: ClassVar[dict[str, type[BasePolicy]]] = POLICIES
    fast_path_class: ClassVar[type[FastPath] | None] = CpuFastPath

    @checked_keywords
    def __init__(
        self,
        policy: str | type[ActorCriticPolicy],
        env: GymEnv | str | None,
        learning_rate: float | Schedule = 3e-4,
        n_steps: int = 2048,
        batch_size: int = 64,
        n_epochs: int = 10,
        gamma: float = 0.99,
        gae_lambda: float = 0.95,
        clip_range: float | Schedule = 0.2,
        clip_range_vf: float | Schedule | None = None,
        normalize_advantage: bool = True,
        ent_coef: float = 0.0,
        vf_coef: float = 0.5,
        max_grad_norm: float = 0.5,
        use_sde: bool = False,
        sde_sample_freq: int = -1,
        rollout_buffer_class: type[RolloutBuffer] | None = None,
        rollout_buffer_kwargs: dict[str, Any] | None = None,
        target_kl: float | None = None,
        stats_window_size: int = 100,
        tensorboard_log: str | None = None,
        policy_kwargs: dict[str, Any] | None = None,
        verbose: int = 0,
        seed: int | None = None,
        device: th.device | str = "auto",
        _init_setup_model: bool = True,
        *,
        kl_stop_factor: float = 1.5,
        kl_stop_scope: Literal["minibatch", "epoch"] = "minibatch",
        kl_rollback: bool = False,
        kl_adaptive_lr: float | None = None,
        kl_adaptive_lr_bounds: tuple[float, float] = (1e-5, 1e-2),
        reset_optimizer: Literal["never", "lr_jump"] = "never",
        value_loss: Literal["mse", "huber"] = "mse",
        normalize_values: bool = False,
        fast: bool | Literal["alone"] = True,
    ) -> None:
        self.kl_stop_factor = kl_stop_factor
        self.kl_stop_scope = kl_stop_scope
        self.kl_rollback = kl_rollback
        self.kl_adaptive_lr = kl_adaptive_lr
        self.kl_adaptive_lr_bounds = kl_adaptive_lr_bounds
        self.reset_optimizer = reset_optimizer
        self.value_loss = value_loss
        self.normalize_values = normalize_values
        self.fast = fast
        super().__init__(**arguments_of(PPO.__init__, locals()))

    def _make_update(self, settings: LossSettings) -> UpdateBackend:
        policy = self._policy_for_update()
        if policy is None:
            return super()._make_update(settings)
        rollout = self._fast_rollout(policy)
        return FastUpdate(policy, rollout, self._fast_loss(settings), minibatch_bounds(rollout.n, self.batch_size))

    def _policy_for_update(self) -> FastPolicy | None:
        """The policy on the fast path, unless a subclass or a buffer of the user's evaluates samples differently."""
        is_usual = type(self)._evaluate is PPOExt._evaluate and type(self.rollout_buffer) is DeferredValuesRolloutBuffer
        return self.fast_policy if is_usual else None

    def _fast_rollout(self, policy: FastPolicy) -> Rollout:
        buffer = self.rollout_buffer
        flatten_buffer(buffer)
        values, returns = self._normalize_values(buffer.values), self._normalize_values(buffer.returns)
        columns = (values, buffer.log_probs, buffer.advantages, returns)
        return policy.prepare_rollout(buffer.observations, buffer.actions, columns)

    def _fast_loss(self, settings: LossSettings) -> FastLoss:
        return FastLoss(
            kind=LossKind.PPO,
            normalize=settings.normalize_advantage,
            huber=settings.value_loss == "huber",
            clip=settings.clip_range,
            clip_vf=-1.0 if settings.clip_range_vf is None else settings.clip_range_vf,
            ent_coef=settings.ent_coef,
            vf_coef=settings.vf_coef,
            max_norm=self.max_grad_norm,
        )

    def _rollout_kl(self) -> float:
        policy = self._policy_for_update()
        if policy is None:
            return super()._rollout_kl()
        return policy.kl(self._fast_rollout(policy))

    def _normalize_values(self, values: np.ndarray) -> np.ndarray:
        head = self.policy.value_net
        return head.normalize(th.from_numpy(values)).numpy() if isinstance(head, PopArtHead) else values
