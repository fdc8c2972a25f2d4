"""PPO's update, once for all variants of PPO: its loop, its options, and what it logs.

A mixin for SB3's ``PPO`` and sb3-contrib's ``RecurrentPPO`` and ``MaskablePPO``, which differ in how a policy is asked
about a minibatch. Their constructors and rollouts are used as they are.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, ClassVar

import torch as th
from stable_baselines3.common.policies import ActorCriticPolicy
from stable_baselines3.common.type_aliases import GymEnv, RolloutBufferSamples, Schedule
from stable_baselines3.common.utils import explained_variance, update_learning_rate

from sb3_ext.common.algorithm import ExtAlgorithm
from sb3_ext.common.arguments import read_flag, read_number
from sb3_ext.common.names import check_choice
from sb3_ext.common.popart import PopArtHead
from sb3_ext.common.updates import MinibatchMetrics, PolicyOutput, evaluate_batch, in_order, rollout_kl
from sb3_ext.fast.critic_process import CriticProcessFailed
from sb3_ext.ppo_ext.adaptive_lr import adapted_learning_rate
from sb3_ext.ppo_ext.kl_guard import KL_STOP_SCOPES, KLGuard
from sb3_ext.ppo_ext.loss import VALUE_LOSSES, LossSettings
from sb3_ext.ppo_ext.steps import MinibatchSteps, PlainSteps

__all__ = ["PPOUpdate"]

OPTIMIZER_RESETS = ("never", "lr_jump")

#: A learning rate that changes by this factor from one update to the next has jumped.
_LR_JUMP = 2.0


class PPOUpdate(ExtAlgorithm):
    """
    Options of the update; all are off by default. The numbers in :attr:`schedulable` may be schedules.

    :param policy: The policy model to use (MlpPolicy, CnnPolicy, ...)
    :param env: The environment to learn from (if registered in Gymnasium, can be str)
    :param kl_stop_factor: with ``target_kl`` set, an update ends when the KL divergence exceeds ``kl_stop_factor *
        target_kl``; SB3 has 1.5 hard-coded
    :param kl_stop_scope: ``"minibatch"`` (as SB3) checks each minibatch before the step on it; ``"epoch"`` measures the
        whole rollout after each epoch, which is less noisy and costs a forward pass
    :param kl_rollback: when the limit is exceeded, go back to the last parameters and optimizer state inside it, so
        that the step which went too far is undone; needs ``target_kl``
    :param kl_adaptive_lr: KL divergence that each update should make: the learning rate is divided by 1.5 where it
        makes more than twice that, and multiplied where less than half
    :param kl_adaptive_lr_bounds: smallest and largest learning rate that this may lead to
    :param reset_optimizer: ``"lr_jump"`` forgets the optimizer's moments when the learning rate doubles or halves from
        one update to the next
    :param value_loss: ``"mse"``, or ``"huber"``, which is less moved by outliers
    :param normalize_values: learn values in units of the returns' standard deviation (PopArt)
    """

    schedulable: ClassVar[tuple[str, ...]] = (
        "ent_coef",
        "vf_coef",
        "max_grad_norm",
        "target_kl",
        "gamma",
        "gae_lambda",
    )
    # What the algorithms have in common, and their common base class has not
    batch_size: Any
    n_epochs: int
    clip_range: float | Schedule
    clip_range_vf: float | Schedule | None
    normalize_advantage: bool
    target_kl: float | None

    def __init__(
        self,
        policy: str | type[ActorCriticPolicy],
        env: GymEnv | str | None,
        *args: Any,
        kl_stop_factor: float = 1.5,
        kl_stop_scope: str = "minibatch",
        kl_rollback: bool = False,
        kl_adaptive_lr: float | None = None,
        kl_adaptive_lr_bounds: tuple[float, float] = (1e-5, 1e-2),
        reset_optimizer: str = "never",
        value_loss: str = "mse",
        normalize_values: bool = False,
        _init_setup_model: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(policy, env, *args, _init_setup_model=False, **kwargs)
        self.kl_stop_factor = kl_stop_factor
        self.kl_stop_scope = kl_stop_scope
        self.kl_rollback = kl_rollback
        self.kl_adaptive_lr = kl_adaptive_lr
        self.kl_adaptive_lr_bounds = kl_adaptive_lr_bounds
        self.reset_optimizer = reset_optimizer
        self.value_loss = value_loss
        self.normalize_values = normalize_values
        self._n_kl_stops = 0
        self._adaptive_lr: float | None = None
        if _init_setup_model:
            self._setup_model()

    @property
    def kl_stops(self) -> int:
        """How many updates ended early because of the KL divergence, since the model was created."""
        return self._n_kl_stops

    def _setup_model(self) -> None:
        self.normalize_values = read_flag("normalize_values", self.normalize_values)
        super()._setup_model()
        self._check_options()
        if self.normalize_values:
            self._install_popart()

    def _check_options(self) -> None:
        self.kl_rollback = read_flag("kl_rollback", self.kl_rollback)
        check_choice("kl_stop_scope", self.kl_stop_scope, KL_STOP_SCOPES)
        check_choice("reset_optimizer", self.reset_optimizer, OPTIMIZER_RESETS)
        check_choice("value_loss", self.value_loss, VALUE_LOSSES)
        self.kl_stop_factor = read_number("kl_stop_factor", self.kl_stop_factor)
        if self.kl_adaptive_lr is not None:
            self.kl_adaptive_lr = read_number("kl_adaptive_lr", self.kl_adaptive_lr)
        low, high = (read_number("kl_adaptive_lr_bounds", bound) for bound in self.kl_adaptive_lr_bounds)
        self.kl_adaptive_lr_bounds = (low, high)
        if not 0 < low <= high:
            raise ValueError(f"kl_adaptive_lr_bounds={(low, high)} must be positive, the smaller one first.")
        for name in ("kl_stop_factor", "target_kl", "kl_adaptive_lr"):
            value = self._initial(name)
            if value is not None and value <= 0:
                raise ValueError(f"{name}={value} must be positive.")
        if self.kl_rollback and self.target_kl is None:
            raise ValueError("kl_rollback=True has no limit to go back to: set target_kl (0.01 to 0.05 is usual).")
        if self.kl_stop_scope != "minibatch" and self.target_kl is None:
            warnings.warn(f"kl_stop_scope={self.kl_stop_scope!r} does nothing without target_kl.", stacklevel=2)
        if self.kl_adaptive_lr is not None and self.lr_schedule(1.0) != self.lr_schedule(0.0):
            raise ValueError(
                f"kl_adaptive_lr={self.kl_adaptive_lr} and the schedule learning_rate={self.learning_rate} would fight "
                "over the learning rate: give a constant learning_rate to start from."
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
        metrics, guard, n_steps = self._train_on_rollout(settings)
        self._n_kl_stops += int(guard.stopped)
        self._adapt_learning_rate(guard)
        self._log_losses(metrics, settings)
        self._log_kl(metrics, guard, n_steps)

    def _train_on_rollout(self, settings: LossSettings) -> tuple[MinibatchMetrics, KLGuard, int]:
        """The update itself; returns how many gradient steps it made, too."""
        metrics = MinibatchMetrics()
        steps = self._make_steps(settings, metrics)
        limit = None if self.target_kl is None else self.kl_stop_factor * self.target_kl
        guard = KLGuard(limit, self.kl_stop_scope, self.kl_rollback, self._rollout_kl, steps.back_up)
        try:
            n_steps = self._train_epochs(steps, guard)
        except BaseException:
            with suppress(CriticProcessFailed):  # what ended the update is more important
                steps.finish()
            raise
        steps.finish()
        return metrics, guard, n_steps

    def _make_steps(self, settings: LossSettings, metrics: MinibatchMetrics) -> MinibatchSteps:
        """What is done with a minibatch; a variant of PPO may have other means."""
        return PlainSteps(
            self.policy,
            lambda: self.rollout_buffer.get(self.batch_size),
            lambda batch: self._normalized(*self._evaluate(batch)),
            settings,
            metrics,
        )

    def _train_epochs(self, steps: MinibatchSteps, guard: KLGuard) -> int:
        """All passes over the rollout; returns how many gradient steps they made."""
        n_steps = 0
        for _ in range(self.n_epochs):
            n_steps_before = n_steps
            n_steps += self._train_epoch(steps, guard)
            # An epoch that was stopped before its first step changed nothing
            self._n_updates += int(n_steps > n_steps_before)
            if guard.stopped or guard.stops_after_epoch():
                break
        guard.after_last_epoch()
        return n_steps

    def _train_epoch(self, steps: MinibatchSteps, guard: KLGuard) -> int:
        """One pass over the rollout; returns how many gradient steps it made."""
        n_steps = 0
        for batch in steps.epoch():
            if guard.stops_before_step(steps.look(batch)):
                break
            steps.apply(self.max_grad_norm)
            n_steps += 1
        return n_steps

    def _evaluate(self, batch: Any) -> tuple[PolicyOutput, RolloutBufferSamples]:
        """Ask the policy about a minibatch; returns its answer, and the samples that it is about."""
        return evaluate_batch(self.policy, batch), batch

    def _normalized(
        self, output: PolicyOutput, batch: RolloutBufferSamples
    ) -> tuple[PolicyOutput, RolloutBufferSamples]:
        """Values and returns in the units that the value loss is taken in."""
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

    def _adapt_learning_rate(self, guard: KLGuard) -> None:
        if self.kl_adaptive_lr is None:
            return
        assert self._adaptive_lr is not None
        kl = self._rollout_kl()
        self.logger.record("train/rollout_kl", kl)
        if guard.stopped:
            # What the update made, not what rollback left of it: that would raise the rate that was too high. And a
            # rate at which every update is taken back must fall, or nothing is ever learned.
            kl = math.inf if self.kl_rollback else guard.last_kl
        self._adaptive_lr = adapted_learning_rate(
            self._adaptive_lr, kl, self.kl_adaptive_lr, self.kl_adaptive_lr_bounds
        )

    def _loss_settings(self) -> LossSettings:
        """The loss's hyperparameters at this point of training."""
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
        for name in metrics.values:
            self.logger.record(f"train/{name}", metrics.mean(name))
        self.logger.record("train/loss", metrics.last("loss"))
        buffer = self.rollout_buffer
        self.logger.record(
            "train/explained_variance", explained_variance(buffer.values.flatten(), buffer.returns.flatten())
        )
        if hasattr(self.policy, "log_std"):
            self.logger.record("train/std", th.exp(self.policy.log_std).mean().item())
        self.logger.record("train/n_updates", self._n_updates, exclude="tensorboard")
        self.logger.record("train/clip_range", settings.clip_range)
        if settings.clip_range_vf is not None:
            self.logger.record("train/clip_range_vf", settings.clip_range_vf)

    def _log_kl(self, metrics: MinibatchMetrics, guard: KLGuard, n_steps: int) -> None:
        minibatches_an_epoch = -(-self.rollout_buffer.buffer_size * self.rollout_buffer.n_envs // self.batch_size)
        self.logger.record("train/approx_kl_max", metrics.max("approx_kl"))
        self.logger.record("train/epochs_run", n_steps / minibatches_an_epoch)
        self.logger.record("train/kl_stopped", int(guard.stopped))
        self.logger.record("train/kl_stops", self._n_kl_stops)
