"""The policy of a model as a torch module: raw observations in, deterministic actions, probabilities and values out."""

import math
from typing import Any, NamedTuple

import numpy as np
import torch as th
from gymnasium import spaces
from sb3_contrib import TRPO
from sb3_contrib.common.maskable.policies import MaskableActorCriticPolicy
from sb3_contrib.common.recurrent.policies import RecurrentActorCriticPolicy
from sb3_contrib.common.recurrent.type_aliases import RNNStates
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.policies import ActorCriticPolicy
from torch import nn

from sb3_ext.runs.agents.export_inputs import ObservationInput

__all__ = ["OptionalInput", "PolicyModule", "action_sizes", "make_policy_module"]


class OptionalInput(NamedTuple):
    """:param default: a batch of one, which stands for every observation"""

    name: str
    default: np.ndarray


class PolicyModule(nn.Module):
    """
    What ``predict(deterministic=True)`` computes, from observations before ``VecNormalize``.

    :param model: its policy may be of any class; subclasses know more outputs than the action
    :param inputs: the order of the positional arguments; an optional input comes after them
    """

    low: th.Tensor
    high: th.Tensor

    def __init__(self, model: BaseAlgorithm, inputs: list[ObservationInput]) -> None:
        super().__init__()
        self.policy: Any = model.policy
        self.eval()
        self.inputs = inputs
        self.outputs: list[str] = ["action"]
        self.optional: OptionalInput | None = None
        for index, one in enumerate(inputs):
            if one.vec_normalize is not None:
                # In double precision, as NumPy does it
                for name, values in zip(("mean", "std"), one.statistics, strict=True):
                    self.register_buffer(f"{name}_{index}", th.as_tensor(one.stack(values), dtype=th.float64))
        space = self.policy.action_space
        if isinstance(space, spaces.Box):
            dtype = np.result_type(np.float32, space.low.dtype)
            self.register_buffer("low", th.as_tensor(space.low.astype(dtype)))
            self.register_buffer("high", th.as_tensor(space.high.astype(dtype)))

    @property
    def input_names(self) -> list[str]:
        return [one.name for one in self.inputs] + ([] if self.optional is None else [self.optional.name])

    def forward(self, *tensors: th.Tensor) -> tuple[th.Tensor, ...]:
        prepared = {one.key: self._prepare(index, tensors[index]) for index, one in enumerate(self.inputs)}
        observations: Any = prepared[None] if None in prepared else prepared
        optional = [tensor.expand(tensors[0].shape[0], *tensor.shape[1:]) for tensor in tensors[len(self.inputs) :]]
        return self.act(observations, *optional)

    def act(self, observations: Any, *optional: th.Tensor) -> tuple[th.Tensor, ...]:
        """:return: the outputs for observations as the policy wants them"""
        return (self.for_env(self.policy._predict(observations, deterministic=True)),)

    def sample_optional(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """Random values of the optional input."""
        raise NotImplementedError

    def predict_keywords(self, optional: np.ndarray) -> dict[str, Any]:
        """The optional input as arguments of ``predict``."""
        raise NotImplementedError

    def for_env(self, actions: th.Tensor) -> th.Tensor:
        """In the shape and within the bounds of the action space, as ``predict`` does."""
        space = self.policy.action_space
        actions = actions.reshape(-1, *space.shape)
        if not isinstance(space, spaces.Box):
            return actions
        actions = actions.to(self.low.dtype)
        if self.policy.squash_output:
            return self.low + 0.5 * (actions + 1.0) * (self.high - self.low)
        return th.minimum(th.maximum(actions, self.low), self.high)

    def _prepare(self, index: int, observations: th.Tensor) -> th.Tensor:
        one = self.inputs[index]
        if one.vec_normalize is not None:
            mean, std = self.get_buffer(f"mean_{index}"), self.get_buffer(f"std_{index}")
            clip = one.vec_normalize.clip_obs
            observations = ((observations.double() - mean) / std).clamp(-clip, clip).float()
        return observations.permute(0, 3, 1, 2) if one.is_transposed else observations


class _ActorCritic(PolicyModule):
    """A distribution of actions, which may be masked, and a value of the state."""

    def __init__(self, model: BaseAlgorithm, inputs: list[ObservationInput]) -> None:
        super().__init__(model, inputs)
        space = self.policy.action_space
        self.has_probabilities = not isinstance(space, spaces.Box)
        # Nothing trains a value function whose loss doesn't count; TRPO's has a loss of its own
        self.has_value = isinstance(model, TRPO) or getattr(model, "vf_coef", None) != 0
        self.outputs += ["probabilities"] * self.has_probabilities + ["value"] * self.has_value
        if isinstance(self.policy, MaskableActorCriticPolicy):
            self.mask_sizes = action_sizes(space)
            self.optional = OptionalInput("action_mask", np.ones((1, sum(self.mask_sizes)), dtype=bool))

    def act(self, observations: Any, *optional: th.Tensor) -> tuple[th.Tensor, ...]:
        distribution = self.policy.get_distribution(observations, *optional)
        values = [self.policy.predict_values(observations)] if self.has_value else []
        return self.from_distribution(distribution, values)

    def from_distribution(self, distribution: Any, values: list[th.Tensor]) -> tuple[th.Tensor, ...]:
        outputs = [self.for_env(distribution.get_actions(deterministic=True))]
        if self.has_probabilities:
            parts = getattr(distribution, "distributions", None) or distribution.distribution
            probabilities = th.cat([part.probs for part in parts], dim=1) if isinstance(parts, list) else parts.probs
            if isinstance(self.policy.action_space, spaces.MultiBinary) and isinstance(parts, list):
                probabilities = probabilities[:, 1::2]  # sb3-contrib has both probabilities of each
            outputs.append(probabilities)
        return (*outputs, *(value.flatten() for value in values))

    def predict_keywords(self, optional: np.ndarray) -> dict[str, Any]:
        return {"action_masks": optional}

    def sample_optional(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """At least one action of each kind is possible."""
        masks = []
        for size in self.mask_sizes:
            mask = rng.random((n, size)) < 0.5
            mask[np.arange(n), rng.integers(size, size=n)] = True
            masks.append(mask)
        return np.concatenate(masks, axis=1)


class _Recurrent(_ActorCritic):
    """As ``_ActorCritic``, with the state of the LSTMs: hidden and cell state of the actor's and then the critic's."""

    def __init__(self, model: BaseAlgorithm, inputs: list[ObservationInput]) -> None:
        super().__init__(model, inputs)
        layers, _, units = self.policy.lstm_hidden_state_shape
        n_states = 2 if self.policy.lstm_critic is None else 4
        self.optional = OptionalInput("state", np.zeros((1, n_states, layers, units), dtype=np.float32))
        self.outputs.append("next_state")

    def act(self, observations: Any, *optional: th.Tensor) -> tuple[th.Tensor, ...]:
        (state,) = optional
        states = [part.transpose(0, 1).contiguous() for part in state.unbind(dim=1)]
        memory = RNNStates((states[0], states[1]), (states[-2], states[-1]))
        starts = th.zeros(state.shape[0])
        distribution, _ = self.policy.get_distribution(observations, memory.pi, starts)
        _, values, _, after = self.policy.forward(observations, memory, starts, deterministic=True)
        next_states = [*after.pi, *after.vf][: state.shape[1]]
        next_state = th.stack([part.transpose(0, 1) for part in next_states], dim=1)
        return (*self.from_distribution(distribution, [values] if self.has_value else []), next_state)

    def predict_keywords(self, optional: np.ndarray) -> dict[str, Any]:
        hidden, cell = (np.ascontiguousarray(optional[:, index].swapaxes(0, 1)) for index in (0, 1))
        return {"state": (hidden, cell), "episode_start": np.zeros(len(optional))}

    def sample_optional(self, n: int, rng: np.random.Generator) -> np.ndarray:
        assert self.optional is not None
        return rng.uniform(-1, 1, size=(n, *self.optional.default.shape[1:])).astype(np.float32)


class _QValues(PolicyModule):
    """The action with the largest Q-value: DQN and QR-DQN."""

    def __init__(self, model: BaseAlgorithm, inputs: list[ObservationInput]) -> None:
        super().__init__(model, inputs)
        self.outputs += ["q_values", "value"]

    def act(self, observations: Any, *optional: th.Tensor) -> tuple[th.Tensor, ...]:
        if hasattr(self.policy, "q_net"):
            q_values = self.policy.q_net(observations)
        else:
            q_values = self.policy.quantile_net(observations).mean(dim=1)
        return self.for_env(q_values.argmax(dim=1)), q_values, q_values.max(dim=1).values


class _ActorAndCritic(PolicyModule):
    """An actor, and critics of its actions: SAC, TD3, DDPG, TQC and CrossQ."""

    def __init__(self, model: BaseAlgorithm, inputs: list[ObservationInput]) -> None:
        super().__init__(model, inputs)
        self.outputs.append("value")

    def act(self, observations: Any, *optional: th.Tensor) -> tuple[th.Tensor, ...]:
        actions = self.policy._predict(observations, deterministic=True)
        critics = self.policy.critic(observations, actions)
        # One tensor has quantiles (TQC): by critic, then by quantile
        values = th.cat(critics, dim=1) if isinstance(critics, tuple) else critics.mean(dim=2)
        return self.for_env(actions), values.min(dim=1).values


def make_policy_module(model: BaseAlgorithm, inputs: list[ObservationInput]) -> PolicyModule:
    policy: Any = model.policy
    if isinstance(policy, RecurrentActorCriticPolicy):
        return _Recurrent(model, inputs)
    if isinstance(policy, (ActorCriticPolicy, MaskableActorCriticPolicy)):
        return _ActorCritic(model, inputs)
    if hasattr(policy, "q_net") or hasattr(policy, "quantile_net"):
        return _QValues(model, inputs)
    if hasattr(policy, "actor") and hasattr(policy, "critic"):
        return _ActorAndCritic(model, inputs)
    return PolicyModule(model, inputs)


def action_sizes(space: spaces.Space) -> list[int]:
    """Choices per part of an action, as sb3-contrib's masks have them."""
    if isinstance(space, spaces.MultiDiscrete):
        return [int(size) for size in space.nvec]
    if isinstance(space, spaces.MultiBinary):
        return [2] * math.prod(space.shape)
    assert isinstance(space, spaces.Discrete)
    return [int(space.n)]
