"""PopArt: a value head that learns normalised returns, whatever their scale (van Hasselt et al., 2016).

The head's outputs are in the returns' own units, so nothing around it changes; only the loss is computed in normalised
units. When the statistics change, its weights are adapted so that its outputs stay the same.
"""

from typing import Any

import torch as th
from torch import nn

__all__ = ["PopArtHead"]


class PopArtHead(nn.Linear):
    """
    :param linear: the value head to replace
    :param beta: weight of the newest returns in the statistics, at each update
    """

    mean: th.Tensor
    mean_square: th.Tensor
    weight_sum: th.Tensor

    def __init__(self, linear: nn.Linear, beta: float = 0.1) -> None:
        super().__init__(linear.in_features, linear.out_features)
        self.beta = beta
        for name in ("mean", "mean_square", "weight_sum"):
            self.register_buffer(name, th.zeros(()))
        self.load_state_dict(linear.state_dict())

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        # A model that was trained without this head has no statistics yet
        for name, buffer in self.named_buffers():
            state_dict.setdefault(prefix + name, buffer)
        super()._load_from_state_dict(state_dict, prefix, *args)

    def statistics(self) -> tuple[th.Tensor, th.Tensor]:
        """:return: mean and standard deviation of the returns; 0 and 1 before the first update"""
        if self.weight_sum == 0:
            return th.zeros_like(self.mean), th.ones_like(self.mean)
        mean = self.mean / self.weight_sum
        variance = self.mean_square / self.weight_sum - mean**2
        return mean, variance.clamp(min=1e-4**2).sqrt()

    def forward(self, latent: th.Tensor) -> th.Tensor:
        mean, std = self.statistics()
        return super().forward(latent) * std + mean

    def normalize(self, values: th.Tensor) -> th.Tensor:
        mean, std = self.statistics()
        return (values - mean) / std

    @th.no_grad()
    def update_statistics(self, returns: th.Tensor) -> None:
        """Include the returns of a new rollout."""
        old_mean, old_std = self.statistics()
        self.mean.lerp_(returns.mean(), self.beta)
        self.mean_square.lerp_((returns**2).mean(), self.beta)
        # Corrects the bias of the first updates towards the initial zeros
        self.weight_sum.lerp_(th.ones_like(self.weight_sum), self.beta)
        mean, std = self.statistics()
        self.weight.mul_(old_std / std)
        self.bias.mul_(old_std).add_(old_mean - mean).div_(std)
