"""PPO's loss on one minibatch, as a pure function: the operations and their order are SB3's, so the numbers are too."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch as th
from stable_baselines3.common.type_aliases import RolloutBufferSamples
from torch.nn import functional as F

from sb3_ext.common.policy_output import PolicyOutput

__all__ = ["VALUE_LOSSES", "LossSettings", "LossTerms", "ppo_loss"]

VALUE_LOSSES: dict[str, Callable[..., th.Tensor]] = {"mse": F.mse_loss, "huber": F.huber_loss}


class LossSettings(NamedTuple):
    """The loss's hyperparameters, with the values that they have in this update."""

    clip_range: float
    clip_range_vf: float | None
    ent_coef: float
    vf_coef: float
    normalize_advantage: bool
    value_loss: str = "mse"


class LossTerms(NamedTuple):
    """The loss, its parts before their coefficients, and the log-ratio that they came from."""

    total: th.Tensor
    policy: th.Tensor
    value: th.Tensor
    entropy: th.Tensor
    log_ratio: th.Tensor


def ppo_loss(output: PolicyOutput, batch: RolloutBufferSamples, settings: LossSettings) -> LossTerms:
    """
    :param output: the policy's output for the minibatch
    :param batch: the minibatch
    :param settings: hyperparameters of the loss
    """
    log_ratio = output.log_prob - batch.old_log_prob
    policy = _policy_loss(th.exp(log_ratio), _advantages(batch.advantages, settings), settings.clip_range)
    value_loss = VALUE_LOSSES[settings.value_loss]
    value = value_loss(batch.returns, _clipped_values(output.values, batch.old_values, settings.clip_range_vf))
    # Without an analytical entropy, the mean of -log_prob is its estimate
    entropy = -th.mean(-output.log_prob if output.entropy is None else output.entropy)
    total = policy + settings.ent_coef * entropy + settings.vf_coef * value
    return LossTerms(total, policy, value, entropy, log_ratio)


def _advantages(advantages: th.Tensor, settings: LossSettings) -> th.Tensor:
    # One sample has no standard deviation
    if settings.normalize_advantage and len(advantages) > 1:
        return (advantages - advantages.mean()) / (advantages.std() + 1e-8)
    return advantages


def _policy_loss(ratio: th.Tensor, advantages: th.Tensor, clip_range: float) -> th.Tensor:
    clipped_ratio = th.clamp(ratio, 1 - clip_range, 1 + clip_range)
    return -th.min(advantages * ratio, advantages * clipped_ratio).mean()


def _clipped_values(values: th.Tensor, old_values: th.Tensor, clip_range_vf: float | None) -> th.Tensor:
    if clip_range_vf is None:
        return values
    return old_values + th.clamp(values - old_values, -clip_range_vf, clip_range_vf)
