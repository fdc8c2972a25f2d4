"""Policies for images: a convolutional network with channels last in memory, which convolutions are faster in."""

import itertools
from collections.abc import Callable

import numpy as np
import torch as th
from stable_baselines3.common.policies import ActorCriticPolicy
from stable_baselines3.common.torch_layers import NatureCNN
from torch import nn
from torch.nn import functional as F

from sb3_ext.common.extractors import Centre, ImpalaCNN, SmallCNN
from sb3_ext.common.popart import PopArtHead
from sb3_ext.fast.kernel import N_METRICS, Kernel
from sb3_ext.fast.memory import keep_memory
from sb3_ext.fast.optimizer import OptimizerState
from sb3_ext.fast.policy import BERNOULLI, GAUSSIAN, FastLoss, FastPolicy, LossKind, Rollout
from sb3_ext.fast.threaded_network import ThreadedNetwork

__all__ = ["FastImagePolicy"]

#: A rollout is evaluated in chunks of so many rows: larger ones leave the processor's caches
_CHUNK = 1024
#: From so many images on, the linear layer is a convolution where that is faster: with AVX-512. Without, it is several
#: times slower. To copy its weights pays only for so many
_WIDE, _CONVOLVES = 64, "AVX512" in th.backends.cpu.get_cpu_capability()
#: A thread gets at least so many images. With fewer, as when acting, torch's own threads are as fast or faster
_LEAST = 32
#: Standard deviations of discrete actions
_NONE = np.empty(0, np.float32)


class _ImageNetwork(nn.Module):
    """A policy's network, from images to the actor's outputs and values."""

    def __init__(self, policy: ActorCriticPolicy) -> None:
        super().__init__()
        extractor = policy.features_extractor
        assert isinstance(extractor, NatureCNN | ImpalaCNN | SmallCNN)
        self._extractor = extractor
        self._convolutions = extractor.cnn[:-1]  # without the layer that flattens
        self._mlp_extractor, self._action_net, self._value_net = (
            policy.mlp_extractor,
            policy.action_net,
            policy.value_net,
        )

    def forward(self, images: th.Tensor) -> tuple[th.Tensor, th.Tensor]:
        is_wide = _CONVOLVES and len(images) >= _WIDE
        features = self._wide_features(images) if is_wide else self._extractor(images)
        actor_latent, critic_latent = self._mlp_extractor(features)
        return self._action_net(actor_latent), self._value_net(critic_latent)

    def _wide_features(self, images: th.Tensor) -> th.Tensor:
        """
        The extractor's result, its linear layer as a convolution over the whole map: oneDNN uses AVX-512 where torch's
        matrix product does not (twice as fast on AMD), and the maps need not be copied to another layout.
        """
        maps = self._convolutions(images)
        linear, *rest = self._extractor.linear
        assert isinstance(linear, nn.Linear)
        weight = linear.weight.view(-1, *maps.shape[1:]).contiguous(memory_format=th.channels_last)
        features = F.conv2d(maps, weight, linear.bias).flatten(1)
        for layer in rest:
            features = layer(features)
        return features


class FastImagePolicy(FastPolicy):
    """Actor and critic share the network, so that a value costs nothing more when acting."""

    def __init__(self, policy: ActorCriticPolicy) -> None:
        keep_memory()
        policy.features_extractor.to(memory_format=th.channels_last)  # type: ignore[call-overload]
        super().__init__(policy)
        self._network = ThreadedNetwork(_ImageNetwork(policy))
        layers = getattr(policy.features_extractor, "cnn", ())
        self._centre = next((layer for layer in layers if isinstance(layer, Centre)), None)
        self._before_centre = nn.Sequential(*itertools.takewhile(lambda layer: layer is not self._centre, layers))
        kind, sizes = self._head
        # Only for its distributions and losses
        self._kernel = Kernel((1, sum(sizes)), (1, 1), 0, kind, sizes, False)
        self._log_std = policy.log_std if kind == GAUSSIAN else None
        parameters = list(policy.parameters())
        can_step = OptimizerState.can_do(policy.optimizer, parameters) and type(policy.optimizer) is th.optim.Adam
        self._optimizer = OptimizerState(policy.optimizer, parameters) if can_step else None

    @staticmethod
    def why_not(policy: ActorCriticPolicy) -> str | None:
        """:return: why the policy is not supported, as the end of a sentence; ``None`` when it is"""
        if type(policy.features_extractor) not in (NatureCNN, ImpalaCNN, SmallCNN):
            return f"of the features extractor {type(policy.features_extractor).__name__}"
        if isinstance(policy.value_net, PopArtHead):
            return "of normalised values from images"
        if not policy.share_features_extractor:
            return "actor and critic have a features extractor each"
        if not policy.normalize_images:
            return "of its observations (images that are normalised already)"
        return None

    @th.no_grad()
    def act(self, observations: np.ndarray) -> tuple[np.ndarray, th.Tensor, th.Tensor]:
        outputs, values = self._forward(self.prepare(observations))
        actions = self._sample(outputs)
        log_probs = self._log_probs(outputs, self.prepare_actions(actions))
        return actions, values, th.from_numpy(log_probs)

    def _sample(self, outputs: th.Tensor) -> np.ndarray:
        n = len(outputs)
        if self._head.kind == BERNOULLI:
            return th.bernoulli(th.sigmoid(outputs)).numpy()
        out = self.empty_actions(n)
        self._kernel.choose(outputs.numpy(), self._deviations(), self.draw(n).numpy(), out)
        return out

    def _log_probs(self, outputs: th.Tensor, actions: np.ndarray) -> np.ndarray:
        log_probs = np.empty(len(actions), np.float32)
        self._kernel.log_probs(outputs.numpy(), self._deviations(), actions, log_probs)
        return log_probs

    def _deviations(self) -> np.ndarray:
        return _NONE if self._log_std is None else self._log_std.detach().numpy()

    def prepare(self, observations: np.ndarray) -> np.ndarray:
        """Height, width, channels: the memory layout from here on."""
        return np.stack([observations[:, channel] for channel in range(observations.shape[1])], axis=-1)

    @th.no_grad()
    def evaluate(self, observations: np.ndarray, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        values, log_probs = np.empty(len(actions), np.float32), np.empty(len(actions), np.float32)
        for start in range(0, len(actions), _CHUNK):
            part = slice(start, start + _CHUNK)
            outputs, of_part = self._forward(observations[part])
            values[part], log_probs[part] = of_part.numpy()[:, 0], self._log_probs(outputs, actions[part])
        return values, log_probs

    def differentiate(self, rollout: Rollout, rows: np.ndarray, loss: FastLoss) -> np.ndarray:
        if self._centre is not None and self._policy.training and not self._centre.is_set:
            # All images, not only one thread's part of them
            self._centre.see(self._before_centre(_images(rollout.observations[rows])))
        parts = self._divide(len(rows))
        results = self._network.run(lambda network, part: network(_images(rollout.observations[rows[part]])), parts)
        outputs, values = (th.cat(tensors) for tensors in zip(*results, strict=True))
        of_outputs, of_values, metrics = th.empty_like(outputs), th.empty_like(values), np.empty(N_METRICS)
        of_log_std = np.empty_like(self._deviations())
        self._kernel.loss(
            outputs.detach().numpy(),
            values.detach().numpy(),
            self._deviations(),
            rollout.actions[rows],
            rollout.columns[rows],
            of_outputs.numpy(),
            of_values.numpy(),
            of_log_std,
            metrics,
            loss,
        )
        self._policy.optimizer.zero_grad()
        self._network.zero_grad()
        self._network.run(
            lambda _, work: th.autograd.backward(*work),
            [(result, (of_outputs[part], of_values[part])) for result, part in zip(results, parts, strict=True)],
        )
        self._network.gather_gradients()
        if self._log_std is not None:
            self._log_std.grad = th.from_numpy(of_log_std)
        return metrics

    def sample_gradient(self, n: int) -> Callable[[], object]:
        """:return: computes the gradient of a loss on so many black images"""
        channels, *size = self._policy.observation_space.shape or ()
        actions = np.zeros((n, *(self._policy.action_space.shape or ())))
        rollout = Rollout(
            np.zeros((n, *size, channels), np.uint8), self.prepare_actions(actions), np.zeros((n, 4), np.float32)
        )
        return lambda: self.differentiate(rollout, np.arange(n), FastLoss(LossKind.PPO, clip=0.2))

    def step(self) -> None:
        if self._optimizer is None:
            super().step()
        else:
            self._optimizer.step_with_adam()

    def _forward(self, observations: np.ndarray) -> tuple[th.Tensor, th.Tensor]:
        parts = self._divide(len(observations))
        results = self._network.run(lambda network, part: network(_images(observations[part])), parts)
        outputs, values = zip(*results, strict=True)
        return th.cat(outputs), th.cat(values)

    def _divide(self, n: int) -> list[slice]:
        return self._network.divide(n, _LEAST) if self.may_thread else [slice(n)]


def _images(observations: np.ndarray) -> th.Tensor:
    """Of prepared observations: floats from 0 to 1, as SB3's preprocessing makes them."""
    return th.from_numpy(observations).float().div_(255.0).permute(0, 3, 1, 2)
