"""PPO's loss on plain arrays, with its gradient in closed form: what `sb3_ext.ppo_ext.loss` computes with autograd."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from sb3_ext.fast.policy import LossGradient
from sb3_ext.ppo_ext.loss import LossSettings

__all__ = [
    "PolicyGradient",
    "Samples",
    "policy_loss_gradient",
    "ppo_loss_gradient",
    "value_loss_gradient",
    "whole_loss",
]


class Samples(NamedTuple):
    """What the loss needs to know of a minibatch beside the policy's answers."""

    old_values: np.ndarray
    old_log_prob: np.ndarray
    advantages: np.ndarray
    returns: np.ndarray


class PolicyGradient(NamedTuple):
    """The actor's share of a :class:`~sb3_ext.fast.policy.LossGradient`."""

    log_prob: np.ndarray
    entropy: float
    metrics: dict[str, float]


def ppo_loss_gradient(
    values: np.ndarray, log_prob: np.ndarray, entropy: np.ndarray, samples: Samples, settings: LossSettings
) -> LossGradient:
    """
    :param values: the critic's answers
    :param log_prob: log-probabilities of the actions taken
    :param entropy: entropies of the distributions
    :param samples: the minibatch
    :param settings: hyperparameters of the loss
    """
    policy = policy_loss_gradient(log_prob, entropy, samples.old_log_prob, samples.advantages, settings)
    value_loss, values_gradient = value_loss_gradient(values, samples.old_values, samples.returns, settings)
    metrics = {**policy.metrics, **whole_loss(policy, value_loss, settings)}
    return LossGradient(values_gradient, policy.log_prob, policy.entropy, metrics)


def policy_loss_gradient(
    log_prob: np.ndarray,
    entropy: np.ndarray,
    old_log_prob: np.ndarray,
    advantages: np.ndarray,
    settings: LossSettings,
) -> PolicyGradient:
    """
    :param log_prob: log-probabilities of the actions taken
    :param entropy: entropies of the distributions
    :param old_log_prob: the log-probabilities in the rollout
    :param advantages: the actions' advantages
    :param settings: hyperparameters of the loss
    """
    n = len(log_prob)
    if settings.normalize_advantage and n > 1:
        centred = advantages - _mean(advantages)
        advantages = centred / np.float32(math.sqrt(float(centred @ centred) / (n - 1)) + 1e-8)
    log_ratio = log_prob - old_log_prob
    ratio = np.exp(log_ratio)
    clipped_ratio = np.minimum(np.maximum(ratio, 1 - settings.clip_range), 1 + settings.clip_range)
    surrogate, clipped_surrogate = advantages * ratio, advantages * clipped_ratio
    log_prob_gradient = surrogate * (surrogate <= clipped_surrogate)
    log_prob_gradient *= np.float32(-1 / n)
    metrics = {
        "approx_kl": _mean((ratio - 1) - log_ratio),
        "clip_fraction": np.count_nonzero(np.abs(ratio - 1) > settings.clip_range) / n,
        "policy_gradient_loss": -_mean(np.minimum(surrogate, clipped_surrogate)),
        "entropy_loss": -_mean(entropy),
    }
    return PolicyGradient(log_prob_gradient, -settings.ent_coef / n, metrics)


def whole_loss(policy: PolicyGradient, value_loss: float, settings: LossSettings) -> dict[str, float]:
    """
    :param policy: the actor's share
    :param value_loss: the critic's loss
    :param settings: hyperparameters of the loss
    :return: the metrics that need both
    """
    actor_loss = policy.metrics["policy_gradient_loss"] + settings.ent_coef * policy.metrics["entropy_loss"]
    return {"value_loss": value_loss, "loss": actor_loss + settings.vf_coef * value_loss}


def value_loss_gradient(
    values: np.ndarray, old_values: np.ndarray, returns: np.ndarray, settings: LossSettings
) -> tuple[float, np.ndarray]:
    """
    :param values: the critic's answers
    :param old_values: those in the rollout
    :param returns: what they should be
    :param settings: hyperparameters of the loss
    :return: the value loss, and the gradient of its share of the whole loss
    """
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
        loss = _mean(gradient * (errors - 0.5 * gradient))
        gradient *= np.float32(settings.vf_coef / n)
    else:
        loss = float(errors @ errors) / n
        gradient = errors * np.float32(2 * settings.vf_coef / n)
    return loss, gradient if inside is None else gradient * inside


def _mean(numbers: np.ndarray) -> float:
    """Several times faster than ``numbers.mean()`` on short arrays."""
    return float(np.add.reduce(numbers)) / len(numbers)
