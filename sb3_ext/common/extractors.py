"""Feature extractors in addition to SB3's, for ``policy_kwargs: {features_extractor_class: …}``."""

from collections.abc import Sequence
from typing import Literal

import torch as th
from gymnasium import spaces
from stable_baselines3.common.preprocessing import get_flattened_obs_dim, is_image_space
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from torch import nn

__all__ = ["Centre", "DiscreteEmbedding", "ImpalaCNN", "NormalizedMlp", "SmallCNN"]


class _ResidualBlock(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.ReLU(),
            nn.Conv2d(channels, channels, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(channels, channels, 3, padding=1),
        )

    def forward(self, features: th.Tensor) -> th.Tensor:
        return features + self.layers(features)


class ImpalaCNN(BaseFeaturesExtractor):
    """
    The residual network of IMPALA (Espeholt et al., 2018): slower than NatureCNN, and often better with few steps.

    :param observation_space: images, channels first
    :param features_dim: number of features
    :param channels: channels of the three stages
    """

    def __init__(
        self, observation_space: spaces.Box, features_dim: int = 256, channels: tuple[int, ...] = (16, 32, 32)
    ) -> None:
        if not is_image_space(observation_space, check_channels=False, normalized_image=True):
            raise ValueError(f"ImpalaCNN is for images (height, width and channels), not {observation_space}.")
        super().__init__(observation_space, features_dim)
        layers: list[nn.Module] = []
        n_inputs = observation_space.shape[0]
        for n_outputs in channels:
            layers += [nn.Conv2d(n_inputs, n_outputs, 3, padding=1), nn.MaxPool2d(3, stride=2, padding=1)]
            layers += [_ResidualBlock(n_outputs), _ResidualBlock(n_outputs)]
            n_inputs = n_outputs
        self.cnn = nn.Sequential(*layers, nn.ReLU(), nn.Flatten())
        with th.no_grad():
            n_flat = self.cnn(th.zeros(1, *observation_space.shape)).shape[1]
        self.linear = nn.Sequential(nn.Linear(n_flat, features_dim), nn.ReLU())

    def forward(self, observations: th.Tensor) -> th.Tensor:
        return self.linear(self.cnn(observations))


class Centre(nn.Module):
    """Images around the mean image of the first minibatch, in units of their standard deviation."""

    mean: th.Tensor
    scale: th.Tensor
    is_set: th.Tensor

    def __init__(self, shape: Sequence[int]) -> None:
        super().__init__()
        # A batch of one, so that it follows when the network's layout in memory changes
        self.register_buffer("mean", th.zeros(1, *shape))
        self.register_buffer("scale", th.ones(()))
        self.register_buffer("is_set", th.tensor(False))

    def forward(self, images: th.Tensor) -> th.Tensor:
        # Rollouts and evaluation run in eval mode: only training data counts
        if self.training and th.is_grad_enabled() and not self.is_set:
            self.see(images.detach())
        # (images - mean) * scale, in one pass over the images
        return th.addcmul(-self.scale * self.mean, images, self.scale)

    def see(self, images: th.Tensor) -> None:
        """Take the mean and the deviation of these images."""
        self.mean.copy_(images.mean(0, keepdim=True))
        # At least a grey level: images that are all the same have no deviation
        deviation = (images - self.mean).pow(2).mean().sqrt().clamp(min=1 / 255)
        self.scale.copy_(1 / deviation)
        self.is_set.fill_(True)


class Crop(nn.Module):
    """Images without so many rows and columns at their top, bottom, left and right."""

    def __init__(self, margins: Sequence[int]) -> None:
        super().__init__()
        self._margins = tuple(margins)

    def forward(self, images: th.Tensor) -> th.Tensor:
        top, bottom, left, right = self._margins
        return images[:, :, top : images.shape[2] - bottom, left : images.shape[3] - right]


class SmallCNN(BaseFeaturesExtractor):
    """
    A convolutional network to configure: a layer for each of ``channels``, then a linear one, all with ReLU. The
    defaults need a third of NatureCNN's arithmetic.

    :param observation_space: images, channels first
    :param features_dim: number of features
    :param channels: of each layer
    :param kernels: width and height of each layer's kernels
    :param strides: of each layer
    :param pool: average squares of so many pixels first
    :param layer_norm: normalise each layer's outputs before its ReLU, which keeps units from dying; ``last``: only the
        linear layer's, which takes less time
    :param centre: subtract the mean image of the first minibatch and divide by the deviation from it, so that what
        moves stands out from the background
    :param crop: before all that, cut off so many rows and columns at the top, bottom, left and right
    """

    def __init__(
        self,
        observation_space: spaces.Box,
        features_dim: int = 256,
        channels: Sequence[int] = (16, 32),
        kernels: Sequence[int] = (8, 4),
        strides: Sequence[int] = (4, 2),
        pool: int = 1,
        layer_norm: bool | Literal["last"] = False,
        centre: bool = False,
        crop: Sequence[int] = (0, 0, 0, 0),
    ) -> None:
        if not is_image_space(observation_space, check_channels=False, normalized_image=True):
            raise ValueError(f"SmallCNN is for images (height, width and channels), not {observation_space}.")
        if not len(channels) == len(kernels) == len(strides) > 0:
            raise ValueError(f"channels={channels}, kernels={kernels} and strides={strides} need one for each layer.")
        if min(*channels, *kernels, *strides, pool, features_dim) < 1:
            raise ValueError("channels, kernels, strides, pool and features_dim must be at least 1.")
        if layer_norm not in (True, False, "last"):
            raise ValueError(f"layer_norm={layer_norm!r} must be true, false or 'last'.")
        if len(crop) != 4 or min(crop) < 0:
            raise ValueError(f"crop={crop} must be how much to cut off at the top, bottom, left and right.")
        super().__init__(observation_space, features_dim)
        n_inputs, height, width = observation_space.shape
        size = [height - crop[0] - crop[1], width - crop[2] - crop[3]]
        layers: list[nn.Module] = [Crop(crop)] if any(crop) else []
        layers += [Centre((n_inputs, *size))] if centre else []
        layers += [nn.AvgPool2d(pool)] if pool > 1 else []
        size = [n // pool for n in size]
        for n_outputs, kernel, stride in zip(channels, kernels, strides, strict=True):
            size = [(n - kernel) // stride + 1 for n in size]
            if min(size) < 1:
                raise ValueError(f"Images of {observation_space.shape[1:]} are too small for kernels={kernels}.")
            layers.append(nn.Conv2d(n_inputs, n_outputs, kernel, stride))
            layers += [nn.GroupNorm(1, n_outputs)] if layer_norm is True else []
            layers.append(nn.ReLU())
            n_inputs = n_outputs
        self.cnn = nn.Sequential(*layers, nn.Flatten())
        last: list[nn.Module] = [nn.Linear(n_inputs * size[0] * size[1], features_dim)]
        last += [nn.LayerNorm(features_dim)] if layer_norm else []
        self.linear = nn.Sequential(*last, nn.ReLU())

    def forward(self, observations: th.Tensor) -> th.Tensor:
        return self.linear(self.cnn(observations))


class NormalizedMlp(BaseFeaturesExtractor):
    """
    Normalises observations by their running mean and standard deviation, inside the policy: the statistics are saved
    with it, so it plays without a ``VecNormalize``.

    :param observation_space: vectors
    :param features_dim: number of features; 0 passes on the normalised observations
    :param clip: largest absolute value of a normalised observation
    """

    mean: th.Tensor
    variance: th.Tensor
    count: th.Tensor

    def __init__(self, observation_space: spaces.Space, features_dim: int = 0, clip: float = 10.0) -> None:
        n_inputs = get_flattened_obs_dim(observation_space)
        super().__init__(observation_space, features_dim or n_inputs)
        self.clip = clip
        self.flatten = nn.Flatten()
        self.register_buffer("mean", th.zeros(n_inputs))
        self.register_buffer("variance", th.ones(n_inputs))
        self.register_buffer("count", th.tensor(1e-4))
        self.linear = nn.Sequential(nn.Linear(n_inputs, features_dim), nn.Tanh()) if features_dim else nn.Identity()

    def forward(self, observations: th.Tensor) -> th.Tensor:
        flat = self.flatten(observations)
        # Rollouts and evaluation run in eval mode: only training data counts
        if self.training and th.is_grad_enabled():
            self._update(flat.detach())
        normalized = (flat - self.mean) / th.sqrt(self.variance + 1e-8)
        return self.linear(normalized.clamp(-self.clip, self.clip))

    def _update(self, batch: th.Tensor) -> None:
        """Merge a batch's moments into the running ones (Chan et al.)."""
        n = len(batch)
        mean, variance = batch.mean(0), batch.var(0, unbiased=False)
        total = self.count + n
        delta = mean - self.mean
        self.variance.copy_((self.variance * self.count + variance * n + delta**2 * self.count * n / total) / total)
        self.mean.add_(delta * n / total)
        self.count.copy_(total)


class DiscreteEmbedding(BaseFeaturesExtractor):
    """
    A learned vector for each state of a Discrete (or each value of a MultiDiscrete) observation.

    :param observation_space: Discrete or MultiDiscrete
    :param features_dim: length of the vector
    """

    def __init__(self, observation_space: spaces.Space, features_dim: int = 64) -> None:
        if not isinstance(observation_space, (spaces.Discrete, spaces.MultiDiscrete)):
            raise ValueError(
                f"DiscreteEmbedding is for Discrete and MultiDiscrete observations, not {observation_space}."
            )
        super().__init__(observation_space, features_dim)
        # SB3 passes one-hot vectors: a linear layer without bias looks them up
        self.embedding = nn.Linear(get_flattened_obs_dim(observation_space), features_dim, bias=False)

    def forward(self, observations: th.Tensor) -> th.Tensor:
        return self.embedding(observations.flatten(1))
