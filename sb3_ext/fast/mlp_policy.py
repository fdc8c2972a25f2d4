"""Policies for vectors: actor and critic are separate multi-layer perceptrons."""

import warnings
from typing import Any

import numpy as np
import torch as th
from gymnasium import spaces
from stable_baselines3.common.policies import ActorCriticPolicy
from stable_baselines3.common.torch_layers import FlattenExtractor, MlpExtractor
from torch import nn

from sb3_ext.common.popart import PopArtHead
from sb3_ext.fast.adaptive_choice import AdaptiveChoice
from sb3_ext.fast.critic_process import CriticProcess, CriticProcessFailed, can_fork
from sb3_ext.fast.flat import AdamPart, FlatAdam
from sb3_ext.fast.mlp import ACTIVATIONS, Mlp, Workspace
from sb3_ext.fast.policy import ActorCriticOutput, FastPolicy, LossGradient

__all__ = ["FastMlpPolicy"]

#: Acting is faster in NumPy for up to so many environments, if no layer has more weights than this: beyond, NumPy's
#: BLAS uses all cores, whatever torch was told, and its threads wait for each other when the machine is busy.
_FEW, _NARROW = 32, 8192


class FastMlpPolicy(FastPolicy):
    """
    In rollouts it only acts; values and log-probabilities are computed for all steps at the end. With PopArt,
    :meth:`evaluate` returns normalised values, which the loss needs.
    """

    def __init__(self, policy: ActorCriticPolicy) -> None:
        super().__init__(policy)
        extractor = policy.mlp_extractor
        workspace = Workspace()
        self._actor = Mlp(*_layers(extractor.policy_net, policy.action_net), workspace)
        self._critic = Mlp(*_layers(extractor.value_net, policy.value_net), workspace)
        weights = [layer.weight.numel() for layer in _layers(extractor.policy_net, policy.action_net)[0]]
        self._few = _FEW if max(weights) <= _NARROW else 0
        # PopArt's head is a linear layer whose output is scaled to the returns' units
        self._popart = policy.value_net if isinstance(policy.value_net, PopArtHead) else None
        self._is_one_hot = isinstance(policy.observation_space, spaces.Discrete)
        self._critic_process: CriticProcess | None = None
        self._process_failed = False
        #: Whether an update is faster in this process alone (0) or with the critic in another one (1)
        self.split_choice = AdaptiveChoice()

    @staticmethod
    def why_not(policy: ActorCriticPolicy) -> str | None:
        """:return: why the policy is not supported, as the end of a sentence; ``None`` when it is"""
        if type(policy.features_extractor) is not FlattenExtractor:
            return f"of the features extractor {type(policy.features_extractor).__name__}"
        if type(policy.mlp_extractor) is not MlpExtractor:
            return f"of the network {type(policy.mlp_extractor).__name__}"
        for network in (policy.mlp_extractor.policy_net, policy.mlp_extractor.value_net):
            layers = list(network)
            kinds = {type(layer) for layer in layers[1::2]}
            alternate = all(type(layer) is nn.Linear and layer.bias is not None for layer in layers[::2])
            if not alternate or len(layers) % 2 or len(kinds) > 1 or not kinds <= set(ACTIVATIONS):
                return f"of the layers {', '.join(dict.fromkeys(type(layer).__name__ for layer in layers))}"
        return None

    def act(self, observations: th.Tensor) -> tuple[th.Tensor, None, None]:
        return th.from_numpy(self._head.sample(self._outputs(observations))), None, None

    def predict(self, observations: th.Tensor, deterministic: bool) -> th.Tensor:
        choose = self._head.mode if deterministic else self._head.sample
        return th.from_numpy(choose(self._outputs(observations)))

    def _outputs(self, observations: th.Tensor) -> th.Tensor:
        """The actor's, for one observation per environment."""
        rows = self._rows(observations)
        if len(rows) <= self._few:
            return th.from_numpy(self._actor.forward_few(rows.numpy()))
        return self._actor.forward(rows)

    def evaluate_rollout(self, observations: np.ndarray, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        values, log_probs = super().evaluate_rollout(observations, actions)
        if self._popart is not None:
            mean, std = (statistic.item() for statistic in self._popart.statistics())
            values = values * np.float32(std) + np.float32(mean)
        return values, log_probs

    def prepare(self, observations: np.ndarray) -> np.ndarray:
        if self._is_one_hot:
            return observations.reshape(-1).astype(np.int64, copy=False)
        return observations.reshape(len(observations), -1).astype(np.float32, copy=False)

    def evaluate(self, observations: np.ndarray | th.Tensor, actions: np.ndarray) -> ActorCriticOutput:
        rows = self._rows(th.as_tensor(observations))
        values = self._critic.forward(rows).numpy()[:, 0]
        return values, *self.evaluate_actor(rows, actions)

    def evaluate_actor(self, rows: th.Tensor, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """:return: log-probabilities and entropies"""
        return self._head.evaluate(self._actor.forward(rows), actions)

    def _rows(self, observations: th.Tensor) -> th.Tensor:
        """One float vector per observation, as SB3 makes them; or the position of the 1 in a one-hot vector."""
        if self._is_one_hot:
            return observations.flatten().long()
        if observations.dim() == 2 and observations.dtype == th.float32:
            return observations
        return observations.flatten(1).float()

    def backward(self, gradient: LossGradient) -> None:
        self.backward_actor(gradient.log_prob, gradient.entropy)
        self._critic.backward(th.from_numpy(gradient.values[:, None]))

    def backward_actor(self, log_prob_gradient: np.ndarray, entropy_gradient: float) -> None:
        """Write the gradients of the actor's parameters."""
        self._actor.backward(self._head.backward(log_prob_gradient, entropy_gradient))

    def can_split(self) -> bool:
        """:return: whether the critic can be updated in another process"""
        if self._critic_process is not None and not self._critic_process.is_alive():
            self.do_without_process(self._critic_process.failure())
        return self._adam is not None and not self._process_failed and th.get_num_threads() == 1 and can_fork()

    def do_without_process(self, failure: CriticProcessFailed) -> None:
        """Warn, and never start one again."""
        self._process_failed = True
        self.close()
        warnings.warn(
            f"The process that updates the critic {failure}. Training goes on without it, with the same results. "
            "fast='alone' never starts one.",
            stacklevel=2,
        )

    def close(self) -> None:
        if self._critic_process is not None:
            self._critic_process.close()
            self._critic_process = None

    def split(self, observations: np.ndarray) -> tuple[FlatAdam, AdamPart, CriticProcess]:
        """
        :return: the optimizer, its part that steps the actor's parameters, and the process that updates the critic
        """
        assert self._adam is not None
        if self._critic_process is None or not self._critic_process.fits(observations):
            self.close()
            adam = self._adam.part(self._flat.critic)
            self._critic_process = CriticProcess(self._critic, adam, observations)
        return self._adam, self._adam.part(self._flat.actor), self._critic_process


def _layers(hidden: nn.Sequential, last: Any) -> tuple[list[nn.Linear], type[nn.Module] | None]:
    linear = [layer for layer in hidden if isinstance(layer, nn.Linear)]
    activations = [type(layer) for layer in hidden if not isinstance(layer, nn.Linear)]
    return [*linear, last], activations[0] if activations else None
