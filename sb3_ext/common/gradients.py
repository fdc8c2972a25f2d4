"""One optimizer step, with the gradients clipped as SB3 clips them and their norms told part by part."""

from __future__ import annotations

import torch as th
from stable_baselines3.common.policies import BasePolicy

__all__ = ["GradientNorms", "optimize", "optimize_apart", "split_parameters"]

#: Norms of the gradients before clipping, by the name of the metric.
GradientNorms = dict[str, float]


def split_parameters(policy: BasePolicy) -> tuple[list[th.nn.Parameter], list[th.nn.Parameter]]:
    """
    :param policy: an actor-critic policy
    :return: the actor's parameters (with what it shares), and those that only the critic has
    """
    actor: list[th.nn.Parameter] = []
    critic: list[th.nn.Parameter] = []
    for name, parameter in policy.named_parameters():
        only_critic = "value_net" in name or "critic" in name or name.startswith("vf_features_extractor")
        (critic if only_critic else actor).append(parameter)
    return actor, critic


def optimize(policy: BasePolicy, loss: th.Tensor, max_grad_norm: float) -> GradientNorms:
    """
    Step with the norm of all gradients together clipped, as in SB3.

    :param policy: the policy, with its optimizer
    :param loss: what to minimise
    :param max_grad_norm: the largest norm
    """
    policy.optimizer.zero_grad()
    loss.backward()
    norms = {
        name: _norm(part)
        for name, part in zip(("grad_norm_actor", "grad_norm_critic"), split_parameters(policy), strict=True)
    }
    norms["grad_norm"] = th.nn.utils.clip_grad_norm_(policy.parameters(), max_grad_norm).item()
    policy.optimizer.step()
    return norms


def optimize_apart(policy: BasePolicy, loss: th.Tensor, max_grad_norm: float) -> GradientNorms:
    """
    Step with actor and critic clipped each by itself: where values are large, the critic's gradient would otherwise
    scale the actor's down to nothing.

    :param policy: the policy, with its optimizer
    :param loss: what to minimise
    :param max_grad_norm: the largest norm of each
    """
    policy.optimizer.zero_grad()
    loss.backward()
    actor, critic = split_parameters(policy)
    norms = {
        "grad_norm_actor": th.nn.utils.clip_grad_norm_(actor, max_grad_norm).item(),
        "grad_norm_critic": th.nn.utils.clip_grad_norm_(critic, max_grad_norm).item(),
    }
    policy.optimizer.step()
    return norms


def _norm(parameters: list[th.nn.Parameter]) -> float:
    return th.nn.utils.get_total_norm([p.grad for p in parameters if p.grad is not None]).item()
