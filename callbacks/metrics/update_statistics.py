"""Statistics of the last update besides its own metrics: scaled losses, entropy, gradient norms."""

from collections.abc import Iterable, Mapping
from typing import Any

import torch as th
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.on_policy_algorithm import OnPolicyAlgorithm

from sb3_ext.common.updates import split_parameters

__all__ = ["entropy", "gradient_norms", "scaled_losses"]

#: PPO's and A2C's names for the same
_POLICY_LOSSES = ("train/policy_gradient_loss", "train/policy_loss")


def scaled_losses(model: BaseAlgorithm, values: Mapping[str, Any]) -> dict[str, float]:
    """The parts of the loss, each multiplied by its coefficient."""
    policy_loss = next((values[name] for name in _POLICY_LOSSES if name in values), None)
    if policy_loss is None:
        return {}
    metrics = {"train/scaled_policy_loss": float(policy_loss)}
    for part, coefficient in (("value", "vf_coef"), ("entropy", "ent_coef")):
        # With a schedule, the model already has the value for the next update
        weight = values.get(f"schedule/{coefficient}", getattr(model, coefficient, None))
        loss = values.get(f"train/{part}_loss")
        if loss is not None and isinstance(weight, (int, float)):
            metrics[f"train/scaled_{part}_loss"] = weight * float(loss)
    return metrics


def entropy(values: Mapping[str, Any]) -> dict[str, float]:
    """The entropy of the policy, if the update logged it."""
    loss = values.get("train/entropy_loss")
    return {} if loss is None else {"policy/entropy": -float(loss)}


def gradient_norms(model: BaseAlgorithm, values: Mapping[str, Any]) -> dict[str, float]:
    """
    Gradient norms of the last minibatch after clipping, which is all that the algorithm leaves behind. Empty if there
    was no update, or if it logged the norms itself.
    """
    if "train/n_updates" not in values or "train/grad_norm_actor" in values:
        return {}
    if all(parameter.grad is None for parameter in model.policy.parameters()):
        return {}  # the update was in another process, before a resume
    policy = model.policy
    if isinstance(model, OnPolicyAlgorithm):
        actor, critic = (_norm(part) for part in split_parameters(policy))
        return {
            "train/grad_norm_clipped": (actor**2 + critic**2) ** 0.5,
            "train/grad_norm_clipped_actor": actor,
            "train/grad_norm_clipped_critic": critic,
        }
    actor_network = getattr(policy, "actor", None)
    if actor_network is None:
        return {"train/grad_norm_clipped": _norm(policy.parameters())}
    # The actor's loss flows through the critic and adds to its gradients, so the critic's norm would be wrong
    return {"train/grad_norm_clipped_actor": _norm(actor_network.parameters())}


def _norm(parameters: Iterable[th.nn.Parameter]) -> float:
    gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
    return th.nn.utils.get_total_norm(gradients).item() if gradients else 0.0
