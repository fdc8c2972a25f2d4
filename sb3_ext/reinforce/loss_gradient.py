"""REINFORCE's loss on plain arrays, with its gradient in closed form: what ``REINFORCE._loss`` is to autograd."""

from __future__ import annotations

import numpy as np
from stable_baselines3.common.type_aliases import RolloutBufferSamples

from sb3_ext.fast.policy import LossGradient

__all__ = ["reinforce_loss_gradient"]


def reinforce_loss_gradient(
    values: np.ndarray,
    log_prob: np.ndarray,
    entropy: np.ndarray,
    batch: RolloutBufferSamples,
    ent_coef: float,
    vf_coef: float,
) -> LossGradient:
    """
    :param values: the critic's answers
    :param log_prob: log-probabilities of the actions taken
    :param entropy: entropies of the distributions
    :param batch: the minibatch
    :param ent_coef: coefficient of the entropy
    :param vf_coef: coefficient of the value loss
    """
    n = len(values)
    weights = np.minimum(np.exp(log_prob - batch.old_log_prob.numpy()), 1)
    weighted = weights * batch.advantages.numpy()
    errors = values - batch.returns.numpy()
    policy_loss, value_loss = -float(np.mean(weighted * log_prob)), float(np.mean(errors * errors))
    entropy_loss = -float(entropy.mean())
    metrics = {
        "policy_gradient_loss": policy_loss,
        "value_loss": value_loss,
        "entropy_loss": entropy_loss,
        "loss": policy_loss + ent_coef * entropy_loss + vf_coef * value_loss,
        "importance_weight": float(weights.mean()),
    }
    return LossGradient(
        values=errors * np.float32(2 * vf_coef / n),
        log_prob=weighted * np.float32(-1 / n),
        entropy=-ent_coef / n,
        metrics=metrics,
    )
