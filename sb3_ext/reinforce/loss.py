"""REINFORCE's loss on one minibatch."""

import torch as th
from stable_baselines3.common.type_aliases import RolloutBufferSamples
from torch.nn import functional as F

from sb3_ext.common.updates import PolicyOutput

__all__ = ["reinforce_loss"]


def reinforce_loss(
    output: PolicyOutput, batch: RolloutBufferSamples, ent_coef: float, vf_coef: float
) -> tuple[th.Tensor, dict[str, float]]:
    """:return: the loss and its metrics"""
    values, log_prob, entropy = output
    # 1 for the steps of the present policy, the importance ratio for those that were carried over
    weights = th.exp(log_prob.detach() - batch.old_log_prob).clamp(max=1.0)
    policy_loss = -(weights * batch.advantages * log_prob).mean()
    value_loss = F.mse_loss(batch.returns, values)
    entropy_loss = -th.mean(-log_prob if entropy is None else entropy)
    loss = policy_loss + ent_coef * entropy_loss + vf_coef * value_loss
    return loss, {
        "policy_gradient_loss": policy_loss.item(),
        "value_loss": value_loss.item(),
        "entropy_loss": entropy_loss.item(),
        "loss": loss.item(),
        "importance_weight": weights.mean().item(),
    }
