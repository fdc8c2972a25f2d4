"""Statistics of a policy's networks on a sample of observations: how certain it is, and how many units are dead.

This has no side effects: no gradients, no random numbers, no hooks left behind.
"""

import math
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch as th
from gymnasium import spaces
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.buffers import RolloutBuffer
from stable_baselines3.common.on_policy_algorithm import OnPolicyAlgorithm
from stable_baselines3.common.policies import BasePolicy
from stable_baselines3.common.utils import obs_as_tensor
from torch import nn
from torch.distributions import Bernoulli

from sb3_ext.callbacks.metrics.recent_data import Observations, RecentData, even_stride
from sb3_ext.metrics.bounds import discrete_sizes

__all__ = ["PolicySample", "draw_sample", "initial_policy", "largest_entropy", "network_statistics"]

#: Size of the sample: at least and at most this many observations, and about this many numbers
_MIN_OBSERVATIONS, _MAX_OBSERVATIONS, _MAX_NUMBERS = 64, 256, 50_000

#: Hidden and cell states of an LSTM
_Memory = tuple[th.Tensor, th.Tensor]


@dataclass(frozen=True)
class PolicySample:
    """``memories`` are the LSTM states of actor and critic before these observations."""

    observations: Observations
    action_masks: np.ndarray | None = None
    memories: tuple[_Memory, _Memory] | None = None
    episode_starts: th.Tensor | None = None


def draw_sample(data: RecentData, buffer: Any) -> PolicySample:
    """Sample the collected data, with the masks or LSTM states that the buffer has for it."""
    first = data.pick(np.zeros(1, dtype=int))
    width = sum(part.size for part in first.values()) if isinstance(first, dict) else first.size
    limit = int(np.clip(_MAX_NUMBERS // max(width, 1), _MIN_OBSERVATIONS, _MAX_OBSERVATIONS))
    indices = np.arange(0, data.size, even_stride(data.size, limit, data.n_envs))
    observations = data.pick(indices)
    if not isinstance(buffer, RolloutBuffer) or data.n_axes != 2:
        return PolicySample(observations)
    steps, envs = np.divmod(indices, data.n_envs)
    if hasattr(buffer, "action_masks"):
        return PolicySample(observations, action_masks=buffer.action_masks[steps, envs])
    if not hasattr(buffer, "hidden_states_pi"):
        return PolicySample(observations)

    def memory(part: str) -> _Memory:
        states = (getattr(buffer, f"{kind}_states_{part}")[steps, :, envs] for kind in ("hidden", "cell"))
        hidden, cell = (buffer.to_torch(state.swapaxes(0, 1)) for state in states)
        return hidden, cell

    starts = buffer.to_torch(buffer.episode_starts[steps, envs])
    return PolicySample(observations, memories=(memory("pi"), memory("vf")), episode_starts=starts)


def network_statistics(model: BaseAlgorithm, sample: PolicySample) -> dict[str, float]:
    is_on_policy = isinstance(model, OnPolicyAlgorithm)
    relus = [module for module in model.policy.modules() if isinstance(module, nn.ReLU)]
    is_discrete = not isinstance(model.action_space, spaces.Box)
    metrics: dict[str, float] = {}
    if not relus and not (is_on_policy and is_discrete):
        return metrics
    with asking(model.policy), _watching(relus) as alive:
        if is_on_policy:
            distribution = _distribution(model.policy, sample)
            if relus:
                _ask_critic(model.policy, sample)
            if is_discrete and distribution is not None:
                metrics["policy/prob_max"] = _largest_probability(distribution)
        else:
            _ask_off_policy(model.policy, sample)
        n_units = sum(len(units) for units in alive.values())
        if n_units:
            n_alive = sum(int(th.count_nonzero(units)) for units in alive.values())
            metrics["policy/dead_relus"] = 1.0 - n_alive / n_units
    return metrics


def initial_policy(model: OnPolicyAlgorithm, sample: PolicySample) -> dict[str, float]:
    """How close an untrained policy is to a uniform one."""
    with asking(model.policy):
        distribution = _distribution(model.policy, sample)
        if distribution is None:
            return {}
        if isinstance(model.action_space, spaces.Box):
            return _initial_gaussian(model.policy, model.action_space, distribution.distribution)
        maximum = largest_entropy(model.action_space, sample.action_masks)
        if maximum <= 0:
            return {}
        return {"policy/initial_entropy_share": float(distribution.entropy().mean()) / maximum}


@contextmanager
def asking(policy: BasePolicy) -> Iterator[None]:
    """Without gradients and in evaluation mode; training mode is restored afterwards."""
    was_training = policy.training
    if was_training:
        policy.set_training_mode(False)  # in training mode, some layers would learn from this
    try:
        with th.no_grad():
            yield
    finally:
        if was_training:
            policy.set_training_mode(True)


@contextmanager
def _watching(relus: list[nn.ReLU]) -> Iterator[dict[tuple[nn.Module, int], th.Tensor]]:
    """Filled with the units that were above 0 at least once."""
    alive: dict[tuple[nn.Module, int], th.Tensor] = {}

    def watch(module: nn.Module, _inputs: Any, output: th.Tensor) -> None:
        units = (output > 0).any(0)
        # All positions of a channel share their weights, so they die together
        units = units.flatten(1).any(1) if units.dim() == 3 else units.flatten()
        key = (module, len(units))
        alive[key] = alive[key] | units if key in alive else units

    handles = [module.register_forward_hook(watch) for module in relus]
    try:
        yield alive
    finally:
        for handle in handles:
            handle.remove()


def _distribution(policy: Any, sample: PolicySample) -> Any:
    """``None`` if torch rejects non-finite parameters, which the alerts report."""
    observations = obs_as_tensor(sample.observations, policy.device)
    try:
        if sample.memories is not None:
            return policy.get_distribution(observations, sample.memories[0], sample.episode_starts)[0]
        if sample.action_masks is not None:
            return policy.get_distribution(observations, action_masks=sample.action_masks)
        return policy.get_distribution(observations)
    except ValueError:
        return None


def _ask_critic(policy: Any, sample: PolicySample) -> None:
    observations = obs_as_tensor(sample.observations, policy.device)
    if sample.memories is not None:
        policy.predict_values(observations, sample.memories[1], sample.episode_starts)
    else:
        policy.predict_values(observations)


def _ask_off_policy(policy: Any, sample: PolicySample) -> None:
    observations = obs_as_tensor(sample.observations, policy.device)
    with suppress(ValueError):  # as above
        actions = policy._predict(observations, deterministic=True)
        if isinstance(getattr(policy, "critic", None), nn.Module):
            policy.critic(observations, actions)


def _largest_probability(distribution: Any) -> float:
    """Probability of the most likely action, averaged over states and parts of an action."""
    inner = getattr(distribution, "distributions", None) or distribution.distribution
    means = []
    for part in inner if isinstance(inner, list) else [inner]:
        probabilities = part.probs
        largest = (
            th.maximum(probabilities, 1 - probabilities) if isinstance(part, Bernoulli) else probabilities.amax(-1)
        )
        means.append(largest.mean())
    return float(sum(means) / len(means))


def largest_entropy(space: spaces.Space, masks: np.ndarray | None = None) -> float:
    """Of a uniform policy, averaged over the states whose possible actions are in ``masks``; infinite for a Box."""
    sizes = discrete_sizes(space)
    if sizes is None:
        return math.inf
    if masks is None:
        return float(np.log(sizes).sum())
    possible = np.add.reduceat(masks.reshape(len(masks), -1), np.cumsum(sizes) - sizes, axis=1)
    return float(np.log(possible).sum(axis=1).mean())


def _initial_gaussian(policy: BasePolicy, space: spaces.Box, gaussian: Any) -> dict[str, float]:
    """Mean and standard deviation of the actions, with the action space scaled to -1 and 1."""
    low, high = (bound.reshape(-1).astype(np.float64) for bound in (space.low, space.high))
    if policy.squash_output:
        low, high = -np.ones_like(low), np.ones_like(high)
    middle, half_range = (low + high) / 2, (high - low) / 2  # finite in SB3
    mean = (gaussian.mean.mean(0).cpu().numpy() - middle) / half_range
    std = gaussian.stddev.mean(0).cpu().numpy() / half_range
    return {
        # The dimension that is farthest off, because a mean would hide opposite errors
        "policy/initial_action_mean": float(mean[np.argmax(np.abs(mean))]),
        "policy/initial_action_std": float(std.mean()),
    }
