"""PPO's update, once for all variants of PPO: its loop, its options, and what it logs.

A mixin for SB3's ``PPO`` and sb3-contrib's ``RecurrentPPO`` and ``MaskablePPO``, which differ in how they evaluate a
minibatch. Their constructors and rollouts are used as they are.
"""

import math
import warnings
from collections.abc import Iterable
from typing import Any, ClassVar

import torch as th
from stable_baselines3.common.type_aliases import RolloutBufferSamples, Schedule
from stable_baselines3.common.utils import FloatSchedule, explained_variance, update_learning_rate

from sb3_ext.common.algorithm import ExtAlgorithm
from sb3_ext.common.arguments import read_flag, read_number
from sb3_ext.common.fast_path import KLLimit, UpdateBackend, UpdateResult
from sb3_ext.common.names import check_choice
from sb3_ext.common.popart import PopArtHead
from sb3_ext.common.updates import MinibatchMetrics, PolicyOutput, evaluate_batch, in_order, rollout_kl
from sb3_ext.ppo_ext.kl import KL_STOP_SCOPES, adapted_learning_rate
from sb3_ext.ppo_ext.loss import VALUE_LOSSES, LossSettings
from sb3_ext.ppo_ext.steps import PlainUpdate

__all__ = ["PPOUpdate"]

OPTIMIZER_RESETS = ("never", "lr_jump")

#: A learning rate that changes by this factor from one update to the next has jumped
_LR_JUMP = 2.0


class PPOUpdate(ExtAlgorithm):
    """Mixin, before the SB3 class in the bases. :class:`~sb3_ext.ppo_ext.ppo_ext.PPOExt` documents the options."""

    schedulable: ClassVar[tuple[str, ...]] = (
        "ent_coef",
        "vf_coef",
        "max_grad_norm",
        "target_kl",
        "kl_adaptive_lr",
        "gamma",
        "gae_lambda",
    )
    # Attributes that the SB3 classes share, and their common base class does not have
    batch_size: Any
    n_epochs: int
    clip_range: float | Schedule
    clip_range_vf: float | Schedule | None
    normalize_advantage: bool
    target_kl: float | None

    kl_stop_factor: float
    kl_stop_scope: str
    kl_rollback: bool
    kl_adaptive_lr: float | None
    kl_adaptive_lr_bounds: tuple[float, float]
    reset_optimizer: str
    value_loss: str
    normalize_values: bool
    _n_kl_stops = 0
    _adaptive_lr: float | None = None

    @property
    def kl_stops(self) -> int:
        """How many updates ended early because of the KL divergence, since the model was created."""
        return self._n_kl_stops

    def _setup_model(self) -> None:
        super()._setup_model()
        if self.normalize_values:
            self._install_popart()

    def _read_options(self) -> None:
        super()._read_options()
        self.normalize_values = read_flag("normalize_values", self.normalize_values)
        self.kl_rollback = read_flag("kl_rollback", self.kl_rollback)
        check_choice("kl_stop_scope", self.kl_stop_scope, KL_STOP_SCOPES)
        check_choice("reset_optimizer", self.reset_optimizer, OPTIMIZER_RESETS)
        check_choice("value_loss", self.value_loss, VALUE_LOSSES)
        self.kl_stop_factor = read_number("kl_stop_factor", self.kl_stop_factor)
        low, high = (read_number("kl_adaptive_lr_bounds", bound) for bound in self.kl_adaptive_lr_bounds)
        self.kl_adaptive_lr_bounds = (low, high)
        if not 0 < low <= high:
            raise ValueError(f"kl_adaptive_lr_bounds={(low, high)} must be positive, the smaller one first.")
        for name in ("kl_stop_factor", "target_kl", "kl_adaptive_lr"):
            value = self.schedules.initial(self, name)
            if value is not None and value <= 0:
                raise ValueError(f"{name}={value} must be positive.")
        if self.kl_rollback and self.target_kl is None:
            raise ValueError("kl_rollback=True has no limit to go back to: set target_kl (0.01 to 0.05 is usual).")
        if self.kl_stop_scope != "minibatch" and self.target_kl is None:
            warnings.warn(f"kl_stop_scope={self.kl_stop_scope!r} does nothing without target_kl.", stacklevel=2)
        lr_schedule = FloatSchedule(self.learning_rate)
        if self.kl_adaptive_lr is not None and lr_schedule(1.0) != lr_schedule(0.0):
            raise ValueError(
                f"kl_adaptive_lr={self.kl_adaptive_lr} and the schedule learning_rate={self.learning_rate} would both "
                "set the learning rate: give a constant learning_rate to start from."
            )

    def _install_popart(self) -> None:
        policy = self.policy
        policy.value_net = PopArtHead(policy.value_net).to(self.device)
        # The optimizer holds the old head's parameters
        policy.optimizer = policy.optimizer_class(
            policy.parameters(),
            lr=self.lr_schedule(1.0),  # type: ignore[call-arg]
            **policy.optimizer_kwargs,
        )

    def train(self) -> None:
        """Update the policy from the rollout buffer."""
        self.policy.set_training_mode(True)
        self._update_learning_rate(self.policy.optimizer)
        if isinstance(self.policy.value_net, PopArtHead):
            self.policy.value_net.update_statistics(th.as_tensor(self.rollout_buffer.returns, device=self.device))
        settings = self._loss_settings()
        result = self._make_update(settings).run(self.n_epochs, self._kl_limit())
        self._n_updates += result.n_epochs
        self._n_kl_stops += int(result.stopped)
        self._adapt_learning_rate(result.stopped, result.last_kl)
        metrics = MinibatchMetrics(result.metrics)
        self._log_losses(metrics, settings)
        self._log_kl(result, metrics)

    def _kl_limit(self) -> KLLimit | None:
        if self.target_kl is None:
            return None
        return KLLimit(self.kl_stop_factor * self.target_kl, self.kl_stop_scope, self.kl_rollback)

    def _make_update(self, settings: LossSettings) -> UpdateBackend:
        return PlainUpdate(
            self.policy,
            lambda: self.rollout_buffer.get(self.batch_size),
            lambda batch: self._normalized(*self._evaluate(batch)),
            settings,
            self.max_grad_norm,
            self._rollout_kl,
        )

    def _evaluate(self, batch: Any) -> tuple[PolicyOutput, RolloutBufferSamples]:
        """Returns the policy's output for a minibatch, and the samples that it is for."""
        return evaluate_batch(self.policy, batch), batch

    def _normalized(
        self, output: PolicyOutput, batch: RolloutBufferSamples
    ) -> tuple[PolicyOutput, RolloutBufferSamples]:
        """Values and returns in the units of the value loss."""
        head = self.policy.value_net
        if not isinstance(head, PopArtHead):
            return output, batch
        output = output._replace(values=head.normalize(output.values))
        return output, batch._replace(
            returns=head.normalize(batch.returns), old_values=head.normalize(batch.old_values)
        )

    def _rollout_kl(self) -> float:
        return rollout_kl(self.policy, self._rollout_batches(), self._evaluate)

    def _rollout_batches(self) -> Iterable[Any]:
        return in_order(self.rollout_buffer, self.batch_size)

    def _update_learning_rate(self, optimizers: list[th.optim.Optimizer] | th.optim.Optimizer) -> None:
        assert isinstance(optimizers, th.optim.Optimizer)
        before = optimizers.param_groups[0]["lr"]
        super()._update_learning_rate(optimizers)
        if self.kl_adaptive_lr is not None:
            self._adaptive_lr = self._adaptive_lr or self.lr_schedule(1.0)
            update_learning_rate(optimizers, self._adaptive_lr)
            self.logger.record("train/learning_rate", self._adaptive_lr)
        now = optimizers.param_groups[0]["lr"]
        jumped = before != now and min(before, now) * _LR_JUMP <= max(before, now)
        if self.reset_optimizer == "lr_jump" and jumped:
            optimizers.state.clear()

    def _adapt_learning_rate(self, stopped: bool, last_kl: float) -> None:
        if self.kl_adaptive_lr is None:
            return
        assert self._adaptive_lr is not None
        kl = self._rollout_kl()
        self.logger.record("train/rollout_kl", kl)
        if stopped:
            # The divergence of the update, not what rollback left of it: that would raise a learning rate that was too
            # high. And a rate at which every update is undone must fall, or nothing is ever learned.
            kl = math.inf if self.kl_rollback else last_kl
        self._adaptive_lr = adapted_learning_rate(
            self._adaptive_lr, kl, self.kl_adaptive_lr, self.kl_adaptive_lr_bounds
        )

    def _loss_settings(self) -> LossSettings:
        progress_remaining = self._current_progress_remaining
        clip_range_vf = self.clip_range_vf
        return LossSettings(
            clip_range=self.clip_range(progress_remaining),  # type: ignore[operator]
            clip_range_vf=clip_range_vf(progress_remaining) if callable(clip_range_vf) else clip_range_vf,
            ent_coef=self.ent_coef,
            vf_coef=self.vf_coef,
            normalize_advantage=self.normalize_advantage,
            value_loss=self.value_loss,
        )

    def _log_losses(self, metrics: MinibatchMetrics, settings: LossSettings) -> None:
        metrics.log(self)
        self.logger.record("train/loss", metrics.last("loss"))
        buffer = self.rollout_buffer
        self.logger.record(
            "train/explained_variance", explained_variance(buffer.values.flatten(), buffer.returns.flatten())
        )
        self.logger.record("train/clip_range", settings.clip_range)
        if settings.clip_range_vf is not None:
            self.logger.record("train/clip_range_vf", settings.clip_range_vf)

    def _log_kl(self, result: UpdateResult, metrics: MinibatchMetrics) -> None:
        minibatches_per_epoch = -(-self.rollout_buffer.buffer_size * self.rollout_buffer.n_envs // self.batch_size)
        self.logger.record("train/approx_kl_max", metrics.max("approx_kl"))
        self.logger.record("train/epochs_run", result.n_steps / minibatches_per_epoch)
        self.logger.record("train/kl_stopped", int(result.stopped))
        self.logger.record("train/kl_stops", self._n_kl_stops)
