"""PPO's loss on one minibatch. Operations and their order are SB3's, so the results are the same to the last bit."""

from collections.abc import Callable
from typing import NamedTuple

import torch as th
from stable_baselines3.common.type_aliases import RolloutBufferSamples
from torch.nn import functional as F

from sb3_ext.common.updates import PolicyOutput, normalize_advantages

__all__ = ["VALUE_LOSSES", "LossSettings", "LossTerms", "ppo_loss"]

VALUE_LOSSES: dict[str, Callable[..., th.Tensor]] = {"mse": F.mse_loss, "huber": F.huber_loss}


class LossSettings(NamedTuple):
    """The loss's hyperparameters, with their values in this update."""

    clip_range: float
    clip_range_vf: float | None
    ent_coef: float
    vf_coef: float
    normalize_advantage: bool
    value_loss: str = "mse"


class LossTerms(NamedTuple):
    """The loss, its terms before their coefficients, and the probability ratios."""

    total: th.Tensor
    policy: th.Tensor
    value: th.Tensor
    entropy: th.Tensor
    ratio: th.Tensor
    log_ratio: th.Tensor


def ppo_loss(output: PolicyOutput, batch: RolloutBufferSamples, settings: LossSettings) -> LossTerms:
    log_ratio = output.log_prob - batch.old_log_prob
    ratio = th.exp(log_ratio)
    advantages = normalize_advantages(batch.advantages) if settings.normalize_advantage else batch.advantages
    clipped_ratio = th.clamp(ratio, 1 - settings.clip_range, 1 + settings.clip_range)
    policy = -th.min(advantages * ratio, advantages * clipped_ratio).mean()
    values = _clipped_values(output.values, batch.old_values, settings.clip_range_vf)
    value = VALUE_LOSSES[settings.value_loss](batch.returns, values)
    # Without an analytical entropy, the mean of -log_prob estimates it
    entropy = -th.mean(-output.log_prob if output.entropy is None else output.entropy)
    total = policy + settings.ent_coef * entropy + settings.vf_coef * value
    return LossTerms(total, policy, value, entropy, ratio, log_ratio)


def _clipped_values(values: th.Tensor, old_values: th.Tensor, clip_range_vf: float | None) -> th.Tensor:
    if clip_range_vf is None:
        return values
    return old_values + th.clamp(values - old_values, -clip_range_vf, clip_range_vf)
