"""RecurrentPPOExt and MaskablePPOExt: sb3-contrib's variants of PPO with the extras of PPOExt."""

import warnings
from collections.abc import Iterable
from typing import Any, ClassVar, Literal

import torch as th
from sb3_contrib import MaskablePPO, RecurrentPPO
from sb3_contrib.common.maskable.policies import MaskableActorCriticPolicy
from sb3_contrib.common.recurrent.policies import RecurrentActorCriticPolicy
from stable_baselines3.common.buffers import RolloutBuffer
from stable_baselines3.common.policies import BasePolicy
from stable_baselines3.common.type_aliases import GymEnv, RolloutBufferSamples, Schedule

from sb3_ext.common.names import arguments_of, checked_keywords
from sb3_ext.common.policies import LSTM_POLICIES, MASKABLE_POLICIES
from sb3_ext.common.updates import PolicyOutput, evaluate_batch
from sb3_ext.ppo_ext.update import PPOUpdate

__all__ = ["MaskablePPOExt", "RecurrentPPOExt"]


class RecurrentPPOExt(PPOUpdate, RecurrentPPO):
    """
    sb3-contrib's :class:`~sb3_contrib.RecurrentPPO` (PPO with an LSTM) with the extras of
    :class:`~sb3_ext.ppo_ext.ppo_ext.PPOExt`, which documents the parameters.

    :param policy: The policy model to use (MlpLstmPolicy, CnnLstmPolicy, ...)
    :param env: The environment to learn from (if registered in Gymnasium, can be str)
    """

    policy_aliases: ClassVar[dict[str, type[BasePolicy]]] = LSTM_POLICIES

    @checked_keywords
    def __init__(
        self,
        policy: str | type[RecurrentActorCriticPolicy],
        env: GymEnv | str | None,
        learning_rate: float | Schedule = 3e-4,
        n_steps: int = 128,
        batch_size: int | None = 128,
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
    ) -> None:
        self.kl_stop_factor = kl_stop_factor
        self.kl_stop_scope = kl_stop_scope
        self.kl_rollback = kl_rollback
        self.kl_adaptive_lr = kl_adaptive_lr
        self.kl_adaptive_lr_bounds = kl_adaptive_lr_bounds
        self.reset_optimizer = reset_optimizer
        self.value_loss = value_loss
        self.normalize_values = normalize_values
        super().__init__(**arguments_of(RecurrentPPO.__init__, locals()))

    def _evaluate(self, batch: Any) -> tuple[PolicyOutput, RolloutBufferSamples]:
        values, log_prob, entropy = evaluate_batch(self.policy, batch, batch.lstm_states, batch.episode_starts)
        # Sequences are padded to one length; padding is left out of everything
        real = batch.mask > 1e-8
        samples = {name: getattr(batch, name)[real] for name in ("old_values", "old_log_prob", "advantages", "returns")}
        output = PolicyOutput(values[real], log_prob[real], None if entropy is None else entropy[real])
        return output, batch._replace(**samples)

    def _rollout_batches(self) -> Iterable[Any]:
        # The buffer has to cut and pad sequences
        return self.rollout_buffer.get(self.batch_size)


class MaskablePPOExt(PPOUpdate, MaskablePPO):
    """
    sb3-contrib's :class:`~sb3_contrib.MaskablePPO` (PPO with invalid action masking) with the extras of
    :class:`~sb3_ext.ppo_ext.ppo_ext.PPOExt`, which documents the parameters.

    :param policy: The policy model to use (MlpPolicy, CnnPolicy, ...)
    :param env: The environment to learn from (if registered in Gymnasium, can be str)
    """

    policy_aliases: ClassVar[dict[str, type[BasePolicy]]] = MASKABLE_POLICIES

    @checked_keywords
    def __init__(
        self,
        policy: str | type[MaskableActorCriticPolicy],
        env: GymEnv | str | None,
        learning_rate: float | Schedule = 3e-4,
        n_steps: int = 2048,
        batch_size: int | None = 64,
        n_epochs: int = 10,
        gamma: float = 0.99,
        gae_lambda: float = 0.95,
        clip_range: float | Schedule = 0.2,
        clip_range_vf: float | Schedule | None = None,
        normalize_advantage: bool = True,
        ent_coef: float = 0.0,
        vf_coef: float = 0.5,
        max_grad_norm: float = 0.5,
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
    ) -> None:
        self.kl_stop_factor = kl_stop_factor
        self.kl_stop_scope = kl_stop_scope
        self.kl_rollback = kl_rollback
        self.kl_adaptive_lr = kl_adaptive_lr
        self.kl_adaptive_lr_bounds = kl_adaptive_lr_bounds
        self.reset_optimizer = reset_optimizer
        self.value_loss = value_loss
        self.normalize_values = normalize_values
        super().__init__(**arguments_of(MaskablePPO.__init__, locals()))

    def predict(self, *args: Any, **kwargs: Any) -> Any:
        if len(args) < 5 and kwargs.get("action_masks") is None:
            warnings.warn(
                "MaskablePPOExt predicts without action masks, so it may choose invalid actions: pass "
                "action_masks=get_action_masks(env) (RL Zoo's enjoy can't).",
                stacklevel=2,
            )
        return super().predict(*args, **kwargs)

    def _evaluate(self, batch: Any) -> tuple[PolicyOutput, RolloutBufferSamples]:
        return evaluate_batch(self.policy, batch, action_masks=batch.action_masks), batch
