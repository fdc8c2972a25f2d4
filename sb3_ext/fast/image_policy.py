"""Policies for images: a convolutional network with channels last in memory, which convolutions are faster in."""

import numpy as np
import torch as th
from stable_baselines3.common.policies import ActorCriticPolicy
from stable_baselines3.common.torch_layers import NatureCNN

from sb3_ext.common.extractors import ImpalaCNN
from sb3_ext.common.popart import PopArtHead
from sb3_ext.fast.policy import ActorCriticOutput, FastPolicy, LossGradient

__all__ = ["FastImagePolicy"]


class FastImagePolicy(FastPolicy):
    """Actor and critic share the network, so that a value costs nothing more when acting."""

    def __init__(self, policy: ActorCriticPolicy) -> None:
        policy.features_extractor.to(memory_format=th.channels_last)  # type: ignore[call-overload]
        super().__init__(policy)
        self._outputs = self._values = th.empty(0)

    @staticmethod
    def why_not(policy: ActorCriticPolicy) -> str | None:
        """:return: why the policy is not supported, as the end of a sentence; ``None`` when it is"""
        if type(policy.features_extractor) not in (NatureCNN, ImpalaCNN):
            return f"of the features extractor {type(policy.features_extractor).__name__}"
        if isinstance(policy.value_net, PopArtHead):
            return "of normalised values from images"
        if not policy.share_features_extractor:
            return "actor and critic have a features extractor each"
        if not policy.normalize_images:
            return "of its observations (images that are normalised already)"
        return None

    @th.no_grad()
    def act(self, observations: th.Tensor) -> tuple[th.Tensor, th.Tensor, th.Tensor]:
        outputs, values = self._forward(_channels_last(observations))
        actions = self._head.sample(outputs)
        log_prob, _ = self._head.evaluate(outputs, actions.reshape(len(actions), -1))
        return th.from_numpy(actions), values, th.from_numpy(log_prob)

    def prepare(self, observations: np.ndarray) -> np.ndarray:
        """Height, width, channels: the memory layout from here on."""
        return np.ascontiguousarray(observations.transpose(0, 2, 3, 1))

    def evaluate(self, observations: np.ndarray | th.Tensor, actions: np.ndarray) -> ActorCriticOutput:
        images = th.as_tensor(observations)
        if isinstance(observations, np.ndarray):
            images = images.permute(0, 3, 1, 2)
        self._outputs, self._values = self._forward(_channels_last(images))
        log_prob, entropy = self._head.evaluate(self._outputs.detach(), actions)
        return self._values.detach().numpy()[:, 0], log_prob, entropy

    def backward(self, gradient: LossGradient) -> None:
        self._flat.gradients.zero_()
        outputs_gradient = self._head.backward(gradient.log_prob, gradient.entropy)
        th.autograd.backward([self._outputs, self._values], [outputs_gradient, th.from_numpy(gradient.values[:, None])])

    def _forward(self, images: th.Tensor) -> tuple[th.Tensor, th.Tensor]:
        features = self._policy.features_extractor(images)
        actor_latent, critic_latent = self._policy.mlp_extractor(features)
        return self._policy.action_net(actor_latent), self._policy.value_net(critic_latent)


def _channels_last(images: th.Tensor) -> th.Tensor:
    """Floats from 0 to 1, as SB3's preprocessing makes them."""
    n, channels, height, width = images.shape
    floats = th.empty(n, height, width, channels).permute(0, 3, 1, 2)
    return floats.copy_(images).div_(255.0)
