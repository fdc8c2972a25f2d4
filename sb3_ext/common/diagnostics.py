"""Numbers that tell how an update went: KL divergence, clip fraction, and their means over the minibatches."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import torch as th

__all__ = ["MinibatchMetrics", "approx_kl", "clip_fraction"]


def approx_kl(log_ratio: th.Tensor) -> th.Tensor:
    """
    Estimate KL(old ‖ new) from samples of the old policy: never negative and of low variance, the estimator k3 of
    http://joschu.net/blog/kl-approx.html, as SB3 computes it.

    :param log_ratio: log-probability of each action under the new policy minus that under the old one
    """
    return th.mean((th.exp(log_ratio) - 1) - log_ratio)


def clip_fraction(ratio: th.Tensor, clip_range: float) -> th.Tensor:
    """
    :param ratio: probability of each action under the new policy over that under the old one
    :param clip_range: PPO's clip range
    :return: share of the samples whose ratio is outside it
    """
    return th.mean((th.abs(ratio - 1) > clip_range).float())


class MinibatchMetrics:
    """Collects one number a minibatch under each name, for one update."""

    def __init__(self) -> None:
        self._values: defaultdict[str, list[float]] = defaultdict(list)

    def add(self, **values: float) -> None:
        for name, value in values.items():
            self._values[name].append(value)

    @property
    def names(self) -> list[str]:
        return list(self._values)

    def mean(self, name: str) -> float:
        values = self._values[name]
        return sum(values) / len(values)

    def max(self, name: str) -> float:
        return float(np.max(self._values[name]))

    def last(self, name: str) -> float:
        return self._values[name][-1]
