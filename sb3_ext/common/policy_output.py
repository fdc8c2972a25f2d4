"""What a policy says of data that was collected before: on a minibatch, and over a whole rollout."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
import torch as th
from gymnasium import spaces
from stable_baselines3.common.buffers import RolloutBuffer
from stable_baselines3.common.policies import BasePolicy
from stable_baselines3.common.type_aliases import RolloutBufferSamples

from sb3_ext.common.diagnostics import approx_kl

__all__ = ["PolicyOutput", "evaluate_batch", "in_order", "rollout_kl"]


class PolicyOutput(NamedTuple):
    """What a policy says of a minibatch's observations and actions."""

    values: th.Tensor
    log_prob: th.Tensor
    entropy: th.Tensor | None


def evaluate_batch(policy: Any, batch: RolloutBufferSamples, *args: Any, **kwargs: Any) -> PolicyOutput:
    """
    :param policy: an actor-critic policy as it is now
    :param batch: observations and actions
    :param args: what the policy's ``evaluate_actions`` takes beside them
    :param kwargs: the same, by name
    """
    actions = batch.actions.float()  # RecurrentPPO's buffer leaves MultiBinary actions as int8, which fails
    if isinstance(policy.action_space, spaces.Discrete):
        actions = actions.long().flatten()
    values, log_prob, entropy = policy.evaluate_actions(batch.observations, actions, *args, **kwargs)
    return PolicyOutput(values.flatten(), log_prob, entropy)


def in_order(buffer: RolloutBuffer, batch_size: int | None = None) -> Iterator[RolloutBufferSamples]:
    """
    The samples of a rollout without shuffling, so that looking at them leaves the training's random numbers alone.

    :param buffer: a buffer whose ``get`` has been called, which puts its samples in a row
    :param batch_size: about how many to give out at a time; ``None`` for all
    """
    indices = np.arange(len(buffer.returns))
    for part in np.array_split(indices, max(1, len(indices) // (batch_size or len(indices)))):
        yield buffer._get_samples(part)


@th.no_grad()
def rollout_kl(
    policy: BasePolicy,
    batches: Iterable[Any],
    evaluate: Callable[[Any], tuple[PolicyOutput, Any]],
) -> float:
    """
    KL divergence of the policy from the one that collected the data, over all of it.

    :param policy: the policy as it is now; it is left in training mode
    :param batches: minibatches that make up the rollout
    :param evaluate: asks the policy about one, and returns its samples with the answer
    """
    policy.set_training_mode(False)
    total, n_samples = 0.0, 0
    for batch in batches:
        output, samples = evaluate(batch)
        total += approx_kl(output.log_prob - samples.old_log_prob).item() * len(output.log_prob)
        n_samples += len(output.log_prob)
    policy.set_training_mode(True)
    return total / n_samples
