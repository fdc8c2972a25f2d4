"""PPOExt: SB3's PPO, with KL early stopping that can be observed and tuned."""

from __future__ import annotations

from typing import Any

import torch as th
from stable_baselines3 import PPO
from stable_baselines3.common.policies import ActorCriticPolicy
from stable_baselines3.common.type_aliases import GymEnv, MaybeCallback
from stable_baselines3.common.utils import explained_variance
from typing_extensions import Self

from sb3_ext.common.checked_load import CheckedLoad
from sb3_ext.common.diagnostics import MinibatchMetrics, approx_kl, clip_fraction
from sb3_ext.common.frame_skip import warn_double_frame_skip
from sb3_ext.common.names import check_choice, extends
from sb3_ext.common.policy_output import evaluate_batch, rollout_kl
from sb3_ext.ppo_ext.kl_guard import KL_STOP_SCOPES, KLGuard
from sb3_ext.ppo_ext.loss import LossSettings, LossTerms, ppo_loss

__all__ = ["PPOExt"]


class PPOExt(CheckedLoad, PPO):
    """
    Proximal Policy Optimization with extras. With all of them off, as by default, it trains exactly as SB3's
    :class:`~stable_baselines3.PPO` does from the same seed; all of PPO's parameters are taken too.

    :param policy: The policy model to use (MlpPolicy, CnnPolicy, ...)
    :param env: The environment to learn from (if registered in Gymnasium, can be str)
    :param kl_stop_factor: with ``target_kl`` set, an update ends when the KL divergence exceeds ``kl_stop_factor *
        target_kl``; SB3 has 1.5 hard-coded
    :param kl_stop_scope: ``"minibatch"`` (as SB3) checks each minibatch before the step on it; ``"epoch"`` measures the
        whole rollout after each epoch, which is less noisy and costs a forward pass
    :param kl_rollback: when the limit is exceeded, go back to the last parameters and optimizer state inside it, so
        that the step which went too far is undone; needs ``target_kl``
    :param kwargs: parameters of :class:`~stable_baselines3.PPO`
    """

    @extends(PPO.__init__)
    def __init__(
        self,
        policy: str | type[ActorCriticPolicy],
        env: GymEnv | str | None,
        *args: Any,
        kl_stop_factor: float = 1.5,
        kl_stop_scope: str = "minibatch",
        kl_rollback: bool = False,
        _init_setup_model: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(policy, env, *args, _init_setup_model=False, **kwargs)  # type: ignore[arg-type,misc]
        self.kl_stop_factor = kl_stop_factor
        self.kl_stop_scope = kl_stop_scope
        self.kl_rollback = kl_rollback
        self._n_kl_stops = 0
        if _init_setup_model:
            self._setup_model()

    @property
    def kl_stops(self) -> int:
        """How many updates ended early because of the KL divergence, since the model was created."""
        return self._n_kl_stops

    def _setup_model(self) -> None:
        self._check_kl_options()
        warn_double_frame_skip(self.env)
        super()._setup_model()

    def _check_kl_options(self) -> None:
        check_choice("kl_stop_scope", self.kl_stop_scope, KL_STOP_SCOPES)
        if self.kl_stop_factor <= 0:
            raise ValueError(f"kl_stop_factor={self.kl_stop_factor} must be positive.")
        if self.target_kl is not None and self.target_kl <= 0:
            raise ValueError(f"target_kl={self.target_kl} must be positive, or None for no limit.")
        if self.kl_rollback and self.target_kl is None:
            raise ValueError("kl_rollback=True has no limit to go back to: set target_kl (0.01 to 0.05 is usual).")

    def learn(
        self,
        total_timesteps: int,
        callback: MaybeCallback = None,
        log_interval: int = 1,
        tb_log_name: str = "PPOExt",
        reset_num_timesteps: bool = True,
        progress_bar: bool = False,
    ) -> Self:
        return super().learn(total_timesteps, callback, log_interval, tb_log_name, reset_num_timesteps, progress_bar)

    def train(self) -> None:
        """Update the policy from the rollout buffer."""
        self.policy.set_training_mode(True)
        self._update_learning_rate(self.policy.optimizer)
        settings = self._loss_settings()
        limit = None if self.target_kl is None else self.kl_stop_factor * self.target_kl
        guard = KLGuard(self.policy, limit, self.kl_stop_scope, self.kl_rollback, self._rollout_kl)
        metrics = MinibatchMetrics()

        n_steps = 0
        for _ in range(self.n_epochs):
            n_steps_before = n_steps
            n_steps += self._train_epoch(settings, guard, metrics)
            # An epoch that was stopped before its first step changed nothing
            self._n_updates += int(n_steps > n_steps_before)
            if guard.stopped or guard.stops_after_epoch():
                break
        guard.after_last_epoch()

        self._n_kl_stops += int(guard.stopped)
        self._log_losses(metrics, settings)
        self._log_kl(metrics, guard, n_steps)

    def _train_epoch(self, settings: LossSettings, guard: KLGuard, metrics: MinibatchMetrics) -> int:
        """One pass over the rollout; returns how many gradient steps it made."""
        n_steps = 0
        for batch in self.rollout_buffer.get(self.batch_size):
            terms = ppo_loss(evaluate_batch(self.policy, batch), batch, settings)
            minibatch_kl = self._collect_metrics(metrics, terms, settings)
            if guard.stops_before_step(minibatch_kl):
                break
            self._optimize(terms.total)
            n_steps += 1
        return n_steps

    def _optimize(self, loss: th.Tensor) -> None:
        self.policy.optimizer.zero_grad()
        loss.backward()
        th.nn.utils.clip_grad_norm_(self.policy.parameters(), self.max_grad_norm)
        self.policy.optimizer.step()

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
        )

    def _rollout_kl(self) -> float:
        return rollout_kl(self.policy, self.rollout_buffer, self.batch_size)

    @staticmethod
    @th.no_grad()
    def _collect_metrics(metrics: MinibatchMetrics, terms: LossTerms, settings: LossSettings) -> float:
        kl = approx_kl(terms.log_ratio).item()
        metrics.add(
            approx_kl=kl,
            clip_fraction=clip_fraction(th.exp(terms.log_ratio), settings.clip_range).item(),
            policy_gradient_loss=terms.policy.item(),
            value_loss=terms.value.item(),
            entropy_loss=terms.entropy.item(),
            loss=terms.total.item(),
        )
        return kl

    def _log_losses(self, metrics: MinibatchMetrics, settings: LossSettings) -> None:
        for name in ("entropy_loss", "policy_gradient_loss", "value_loss", "clip_fraction"):
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
        self.logger.record("train/approx_kl", metrics.mean("approx_kl"))
        self.logger.record("train/approx_kl_max", metrics.max("approx_kl"))
        self.logger.record("train/epochs_run", n_steps / minibatches_an_epoch)
        self.logger.record("train/kl_stopped", int(guard.stopped))
        self.logger.record("train/kl_stops", self._n_kl_stops)
