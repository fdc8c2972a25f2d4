"""PPO's loss on one minibatch, as pure functions: for autograd, and with its gradient in closed form on plain arrays.

The operations for autograd and their order are SB3's, so the results are the same to the last bit. The closed form
gives the same loss and gradient up to rounding, and takes a fraction of the time on small networks.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch as th
from stable_baselines3.common.type_aliases import RolloutBufferSamples
from torch.nn import functional as F

from sb3_ext.common.updates import PolicyOutput, approx_kl, clip_fraction, mean, normalize_advantages
from sb3_ext.fast.policy import LossGradient

__all__ = [
    "VALUE_LOSSES",
    "LossSettings",
    "LossTerms",
    "PolicyGradient",
    "Samples",
    "policy_loss_gradient",
    "ppo_loss",
    "ppo_loss_gradient",
    "total_loss",
    "value_loss_gradient",
]

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


class Samples(NamedTuple):
    """What the loss needs of a minibatch besides the policy's output."""

    old_values: np.ndarray
    old_log_prob: np.ndarray
    advantages: np.ndarray
    returns: np.ndarray


class PolicyGradient(NamedTuple):
    """The actor's part of a :class:`~sb3_ext.fast.policy.LossGradient`."""

    log_prob: np.ndarray
    entropy: float
    metrics: dict[str, float]


def ppo_loss_gradient(
    values: np.ndarray, log_prob: np.ndarray, entropy: np.ndarray, samples: Samples, settings: LossSettings
) -> LossGradient:
    """:func:`ppo_loss` in closed form."""
    policy = policy_loss_gradient(log_prob, entropy, samples.old_log_prob, samples.advantages, settings)
    value_loss, values_gradient = value_loss_gradient(values, samples.old_values, samples.returns, settings)
    metrics = {**policy.metrics, **total_loss(policy, value_loss, settings)}
    return LossGradient(values_gradient, policy.log_prob, policy.entropy, metrics)


def policy_loss_gradient(
    log_prob: np.ndarray,
    entropy: np.ndarray,
    old_log_prob: np.ndarray,
    advantages: np.ndarray,
    settings: LossSettings,
) -> PolicyGradient:
    n = len(log_prob)
    if settings.normalize_advantage:
        advantages = normalize_advantages(advantages)
    log_ratio = log_prob - old_log_prob
    ratio = np.exp(log_ratio)
    clipped_ratio = np.minimum(np.maximum(ratio, 1 - settings.clip_range), 1 + settings.clip_range)
    surrogate, clipped_surrogate = advantages * ratio, advantages * clipped_ratio
    log_prob_gradient = surrogate * (surrogate <= clipped_surrogate)
    log_prob_gradient *= np.float32(-1 / n)
    metrics = {
        "approx_kl": approx_kl(ratio, log_ratio),
        "clip_fraction": clip_fraction(ratio, settings.clip_range),
        "policy_gradient_loss": -mean(np.minimum(surrogate, clipped_surrogate)),
        "entropy_loss": -mean(entropy),
    }
    return PolicyGradient(log_prob_gradient, -settings.ent_coef / n, metrics)


def total_loss(policy: PolicyGradient, value_loss: float, settings: LossSettings) -> dict[str, float]:
    """:return: the metrics that need both actor and critic"""
    actor_loss = policy.metrics["policy_gradient_loss"] + settings.ent_coef * policy.metrics["entropy_loss"]
    return {"value_loss": value_loss, "loss": actor_loss + settings.vf_coef * value_loss}


def value_loss_gradient(
    values: np.ndarray, old_values: np.ndarray, returns: np.ndarray, settings: LossSettings
) -> tuple[float, np.ndarray]:
    """:return: the value loss, and the gradient of its term in the total loss"""
    n = len(values)
    inside = None
    if settings.clip_range_vf is not None:
        change = values - old_values
        clipped = np.clip(change, -settings.clip_range_vf, settings.clip_range_vf)
        inside = change == clipped
        values = old_values + clipped
    errors = values - returns
    if settings.value_loss == "huber":
        gradient = np.clip(errors, -1, 1)
        loss = mean(gradient * (errors - 0.5 * gradient))
        gradient *= np.float32(settings.vf_coef / n)
    else:
        loss = float(errors @ errors) / n
        gradient = errors * np.float32(2 * settings.vf_coef / n)
    return loss, gradient if inside is None else gradient * inside
