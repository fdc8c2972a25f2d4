"""Action distributions on plain arrays: samples, log-probabilities, entropies, and their gradients in closed form.

Random numbers are drawn by the same calls of torch as in SB3's distributions, so that a seed gives the same actions.
"""

import math
from abc import ABC, abstractmethod

import numpy as np
import torch as th
from gymnasium import spaces
from torch import nn

__all__ = ["CategoricalHead", "GaussianHead", "Head", "has_head", "make_head"]


class Head(ABC):
    """A distribution over actions, parametrised by the outputs of the actor's last layer (one row per sample)."""

    @abstractmethod
    def sample(self, outputs: th.Tensor) -> np.ndarray:
        """:return: actions as SB3 passes them to the environment, before clipping"""

    @abstractmethod
    def mode(self, outputs: th.Tensor) -> np.ndarray:
        """:return: the most likely actions"""

    @abstractmethod
    def evaluate(self, outputs: th.Tensor, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """:return: log-probability of each action, and entropy of each distribution"""

    @abstractmethod
    def backward(self, log_prob_gradient: np.ndarray, entropy_gradient: float) -> th.Tensor:
        """
        :param log_prob_gradient: gradient of the loss with respect to each log-probability that was evaluated last
        :param entropy_gradient: with respect to each entropy, the same for all
        :return: gradient with respect to the outputs
        """


class CategoricalHead(Head):
    """
    For Discrete and MultiDiscrete actions.

    :param sizes: number of choices of each part of an action
    :param is_single: an action is one number, not a row of them
    """

    def __init__(self, sizes: list[int], is_single: bool) -> None:
        self._sizes = sizes
        self._is_single = is_single
        self._parts: list[_Part] = []

    def sample(self, outputs: th.Tensor) -> np.ndarray:
        if self._is_single:
            return _draw(outputs.numpy())
        return np.stack([_draw(part.numpy()) for part in outputs.split(self._sizes, 1)], axis=1)

    def mode(self, outputs: th.Tensor) -> np.ndarray:
        if self._is_single:
            return outputs.numpy().argmax(axis=1)
        return np.stack([part.numpy().argmax(axis=1) for part in outputs.split(self._sizes, 1)], axis=1)

    def evaluate(self, outputs: th.Tensor, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        parts = [outputs] if self._is_single else outputs.split(self._sizes, 1)
        self._parts = [_Part(part.numpy(), actions[:, i]) for i, part in enumerate(parts)]
        log_prob, entropy = self._parts[0].log_prob, self._parts[0].entropy
        for part in self._parts[1:]:
            log_prob, entropy = log_prob + part.log_prob, entropy + part.entropy
        return log_prob, entropy

    def backward(self, log_prob_gradient: np.ndarray, entropy_gradient: float) -> th.Tensor:
        gradients = [part.backward(log_prob_gradient, entropy_gradient) for part in self._parts]
        return th.from_numpy(gradients[0] if len(gradients) == 1 else np.concatenate(gradients, 1))


def _draw(logits: np.ndarray) -> np.ndarray:
    """
    As ``torch.multinomial`` does for one sample, from the same random numbers but without its checks: the largest
    probability divided by an exponential variate, here in logarithms.
    """
    times = th.empty(logits.shape).exponential_().numpy()
    return np.subtract(logits, np.log(times, out=times), out=times).argmax(axis=1)


class _Part:
    """
    One choice of a categorical action, for a batch. Arrays have a row for each choice: NumPy reduces such wide arrays
    several times faster than tall ones.
    """

    def __init__(self, logits: np.ndarray, actions: np.ndarray) -> None:
        flat = np.ascontiguousarray(logits.T)
        self._log_probs = flat - np.maximum.reduce(flat, axis=0)
        self._probs = np.exp(self._log_probs)
        total = np.add.reduce(self._probs, axis=0)
        self._log_probs -= np.log(total)
        self._probs /= total
        self._chosen = actions.astype(np.int64), np.arange(len(logits))
        self.log_prob = self._log_probs[self._chosen]
        self.entropy = -np.add.reduce(self._probs * self._log_probs, axis=0)

    def backward(self, log_prob_gradient: np.ndarray, entropy_gradient: float) -> np.ndarray:
        gradient = self._probs * -log_prob_gradient
        gradient[self._chosen] += log_prob_gradient
        if entropy_gradient:
            gradient -= (self._log_probs + self.entropy) * self._probs * np.float32(entropy_gradient)
        return gradient.T


class GaussianHead(Head):
    """For Box actions, with a standard deviation that does not depend on the observation."""

    def __init__(self, log_std: nn.Parameter) -> None:
        assert log_std.grad is not None, "give the parameters a gradient first: see sb3_ext.fast.flat"
        self._log_std = log_std.detach()
        self._log_std_gradient = log_std.grad
        self._deviations = self._inverse_variance = np.zeros(0, np.float32)

    def sample(self, outputs: th.Tensor) -> np.ndarray:
        noise = th.normal(th.zeros_like(outputs), th.ones_like(outputs))
        return (outputs + noise * self._log_std.exp()).numpy()

    def mode(self, outputs: th.Tensor) -> np.ndarray:
        return outputs.numpy()

    def evaluate(self, outputs: th.Tensor, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        log_std = self._log_std.numpy()
        self._deviations = actions.astype(np.float32, copy=False) - outputs.numpy()
        self._inverse_variance = np.exp(-2 * log_std)
        constant = np.float32(log_std.sum() + 0.5 * math.log(2 * math.pi) * len(log_std))
        # Not `@`, here and below: NumPy's BLAS would use all cores for it, see mlp_policy.py
        log_prob = -0.5 * np.einsum("ij,j->i", self._deviations**2, self._inverse_variance) - constant
        entropy = np.full(len(outputs), constant + 0.5 * len(log_std), np.float32)
        return log_prob, entropy

    def backward(self, log_prob_gradient: np.ndarray, entropy_gradient: float) -> th.Tensor:
        scaled = self._deviations * self._inverse_variance
        squares = scaled * self._deviations
        gradient = self._log_std_gradient.numpy()
        np.copyto(gradient, np.einsum("i,ij->j", log_prob_gradient, squares - 1) + entropy_gradient * len(squares))
        return th.from_numpy(scaled * log_prob_gradient[:, None])


def has_head(action_space: spaces.Space) -> bool:
    if isinstance(action_space, spaces.MultiDiscrete):
        return action_space.nvec.ndim == 1
    if isinstance(action_space, spaces.Box):
        # A rollout buffer of another dtype rounds the actions after their log-probabilities were computed
        return len(action_space.shape) == 1 and action_space.dtype in (np.float32, np.float64)
    return isinstance(action_space, spaces.Discrete)


def make_head(action_space: spaces.Space, log_std: nn.Parameter | None) -> Head:
    if isinstance(action_space, spaces.Discrete):
        return CategoricalHead([int(action_space.n)], is_single=True)
    if isinstance(action_space, spaces.MultiDiscrete):
        return CategoricalHead([int(n) for n in action_space.nvec], is_single=False)
    assert log_std is not None
    return GaussianHead(log_std)
