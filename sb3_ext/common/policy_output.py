"""What a policy says of data that was collected before: on a minibatch, and over a whole rollout."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch as th
from gymnasium import spaces
from stable_baselines3.common.buffers import RolloutBuffer
from stable_baselines3.common.policies import ActorCriticPolicy
from stable_baselines3.common.type_aliases import RolloutBufferSamples

from sb3_ext.common.diagnostics import approx_kl

__all__ = ["PolicyOutput", "evaluate_batch", "rollout_kl"]


class PolicyOutput(NamedTuple):
    """What a policy says of a minibatch's observations and actions."""

    values: th.Tensor
    log_prob: th.Tensor
    entropy: th.Tensor | None


def evaluate_batch(policy: ActorCriticPolicy, batch: RolloutBufferSamples) -> PolicyOutput:
    """
    :param policy: the policy as it is now
    :param batch: observations and actions
    """
    actions = batch.actions
    if isinstance(policy.action_space, spaces.Discrete):
        actions = actions.long().flatten()
    values, log_prob, entropy = policy.evaluate_actions(batch.observations, actions)
    return PolicyOutput(values.flatten(), log_prob, entropy)


@th.no_grad()
def rollout_kl(policy: ActorCriticPolicy, buffer: RolloutBuffer, batch_size: int) -> float:
    """
    KL divergence of the policy from the one that collected the data, over all of it.

    :param policy: the policy as it is now; it is left in training mode
    :param buffer: a buffer whose ``get`` has been called
    :param batch_size: how many samples to look at a time, about
    """
    policy.set_training_mode(False)
    indices = np.arange(len(buffer.returns))
    total = 0.0
    for part in np.array_split(indices, max(1, len(indices) // batch_size)):
        batch = buffer._get_samples(part)
        total += approx_kl(evaluate_batch(policy, batch).log_prob - batch.old_log_prob).item() * len(part)
    policy.set_training_mode(True)
    return total / len(indices)
