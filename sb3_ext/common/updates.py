"""What the updates of all algorithms share: evaluating a minibatch, measuring it, and making one gradient step."""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np
import torch as th
from gymnasium import spaces
from stable_baselines3.common.buffers import RolloutBuffer
from stable_baselines3.common.on_policy_algorithm import OnPolicyAlgorithm
from stable_baselines3.common.policies import BasePolicy
from stable_baselines3.common.type_aliases import RolloutBufferSamples

__all__ = [
    "Backup",
    "GradientNorms",
    "MinibatchMetrics",
    "PolicyBackup",
    "PolicyOutput",
    "approx_kl",
    "clip_and_step",
    "clip_fraction",
    "clip_separately_and_step",
    "evaluate_batch",
    "in_order",
    "mean",
    "normalize_advantages",
    "rollout_kl",
    "split_parameters",
]

#: Norms of the gradients before clipping, by the name of the metric
GradientNorms = dict[str, float]
#: The plain path computes with tensors, the fast path with arrays
Numbers = TypeVar("Numbers", th.Tensor, np.ndarray)


class PolicyOutput(NamedTuple):
    """A policy's output for a minibatch of observations and actions."""

    values: th.Tensor
    log_prob: th.Tensor
    entropy: th.Tensor | None


def evaluate_batch(policy: Any, batch: RolloutBufferSamples, *args: Any, **kwargs: Any) -> PolicyOutput:
    actions = batch.actions.float()  # RecurrentPPO's buffer leaves MultiBinary actions as int8, which fails
    if isinstance(policy.action_space, spaces.Discrete):
        actions = actions.long().flatten()
    values, log_prob, entropy = policy.evaluate_actions(batch.observations, actions, *args, **kwargs)
    return PolicyOutput(values.flatten(), log_prob, entropy)


def in_order(buffer: RolloutBuffer, batch_size: int | None = None) -> Iterator[RolloutBufferSamples]:
    """
    The samples of a rollout without shuffling, which would draw from the training's random numbers.

    :param buffer: a buffer whose ``get`` has been called, which flattens its arrays
    :param batch_size: approximate size of the minibatches; ``None`` for all samples at once
    """
    indices = np.arange(len(buffer.returns))
    for part in np.array_split(indices, max(1, len(indices) // (batch_size or len(indices)))):
        yield buffer._get_samples(part)


@th.no_grad()
def rollout_kl(
    policy: BasePolicy, batches: Iterable[Any], evaluate: Callable[[Any], tuple[PolicyOutput, Any]] | None = None
) -> float:
    """
    KL divergence of the policy from the one that collected the data, over all of it.

    :param policy: the policy; it is left in training mode
    :param batches: minibatches that make up the rollout
    :param evaluate: returns the policy's output for a minibatch, and the samples that it is for
    """
    policy.set_training_mode(False)
    total, n_samples = 0.0, 0
    for batch in batches:
        output, samples = (evaluate_batch(policy, batch), batch) if evaluate is None else evaluate(batch)
        log_ratio = output.log_prob - samples.old_log_prob
        total += approx_kl(th.exp(log_ratio), log_ratio) * len(log_ratio)
        n_samples += len(log_ratio)
    policy.set_training_mode(True)
    return total / n_samples


def approx_kl(ratio: Numbers, log_ratio: Numbers) -> float:
    """
    Estimate KL(old ‖ new) from samples of the old policy: the estimator k3 of http://joschu.net/blog/kl-approx.html,
    which is never negative and has a low variance. SB3 uses it too.

    :param ratio: probability of each action under the new policy, divided by that under the old one
    :param log_ratio: its logarithm
    """
    return mean((ratio - 1) - log_ratio)


def clip_fraction(ratio: Numbers, clip_range: float) -> float:
    """:return: fraction of the samples whose probability ratio is outside the clip range"""
    outside = abs(ratio - 1) > clip_range
    return np.count_nonzero(outside) / len(outside) if isinstance(outside, np.ndarray) else mean(outside)


def normalize_advantages(advantages: Numbers) -> Numbers:
    """:return: with mean 0 and standard deviation 1; a single sample has none and stays as it is"""
    if len(advantages) < 2:
        return advantages
    if isinstance(advantages, np.ndarray):
        centred = advantages - mean(advantages)
        std = math.sqrt(float(centred @ centred) / (len(centred) - 1))
        return centred / np.float32(std + 1e-8)
    # The operations of SB3, for the same bits
    return (advantages - advantages.mean()) / (advantages.std() + 1e-8)


def mean(numbers: Numbers) -> float:
    if isinstance(numbers, np.ndarray):
        return float(np.add.reduce(numbers)) / len(numbers)  # several times faster than numbers.mean() on short arrays
    return numbers.float().mean().item()


class MinibatchMetrics:
    """One number per minibatch under each name."""

    def __init__(self, values: Mapping[str, Sequence[float]] | None = None) -> None:
        self.values: defaultdict[str, list[float]] = defaultdict(list)
        for name, of_name in (values or {}).items():
            self.values[name].extend(of_name)

    def add(self, **values: float) -> None:
        for name, value in values.items():
            self.values[name].append(value)

    def mean(self, name: str) -> float:
        values = self.values[name]
        return sum(values) / len(values)

    def max(self, name: str) -> float:
        return float(np.max(self.values[name]))  # NaN if one of them is NaN

    def last(self, name: str) -> float:
        return self.values[name][-1]

    def log(self, algorithm: OnPolicyAlgorithm) -> None:
        """Log the means, and what else is known after every update."""
        for name in self.values:
            algorithm.logger.record(f"train/{name}", self.mean(name))
        if hasattr(algorithm.policy, "log_std"):
            algorithm.logger.record("train/std", th.exp(algorithm.policy.log_std).mean().item())
        algorithm.logger.record("train/n_updates", algorithm._n_updates, exclude="tensorboard")


def split_parameters(policy: BasePolicy) -> tuple[list[th.nn.Parameter], list[th.nn.Parameter]]:
    """:return: the parameters of the actor, with those that it shares, and those of the critic alone"""
    actor: list[th.nn.Parameter] = []
    critic: list[th.nn.Parameter] = []
    for name, parameter in policy.named_parameters():
        only_critic = "value_net" in name or "critic" in name or name.startswith("vf_features_extractor")
        (critic if only_critic else actor).append(parameter)
    return actor, critic


def clip_and_step(policy: BasePolicy, loss: th.Tensor, max_grad_norm: float) -> GradientNorms:
    """Make one step with the norm of all gradients clipped, as in SB3."""
    policy.optimizer.zero_grad()
    loss.backward()
    actor, critic = split_parameters(policy)
    norms = {"grad_norm_actor": _norm(actor), "grad_norm_critic": _norm(critic)}
    norms["grad_norm"] = th.nn.utils.clip_grad_norm_(policy.parameters(), max_grad_norm).item()
    policy.optimizer.step()
    return norms


def clip_separately_and_step(policy: BasePolicy, loss: th.Tensor, max_grad_norm: float) -> GradientNorms:
    """
    Make one step with the gradients of actor and critic clipped separately: where values are large, the critic's
    gradient would otherwise scale the actor's down to nothing.
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


class Backup(Protocol):
    """A copy of a policy's parameters and of its optimizer's state."""

    def restore(self) -> None:
        """Put the policy and its optimizer back to the state of the copy."""


class PolicyBackup:
    """:param policy: an SB3 policy with its optimizer; the copy is made now"""

    def __init__(self, policy: BasePolicy) -> None:
        self._policy = policy
        self._parameters = deepcopy(policy.state_dict())
        self._optimizer = deepcopy(policy.optimizer.state_dict())

    def restore(self) -> None:
        self._policy.load_state_dict(self._parameters)
        self._policy.optimizer.load_state_dict(self._optimizer)
