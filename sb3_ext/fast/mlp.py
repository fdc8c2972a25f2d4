"""A multi-layer perceptron, differentiated by hand: for small networks, autograd takes longer than the arithmetic."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch as th
from torch import nn

__all__ = ["ACTIVATIONS", "Activation", "Mlp", "Workspace"]


#: Up to so many inputs, the gradient of the first layer's weights is computed transposed: the BLAS behind torch takes
#: four times as long for such narrow products.
_NARROW = 8
_MINUS_ONE = th.tensor(-1.0)


class Activation(NamedTuple):
    """
    :param apply: computes it in place, for inputs multiplied by ``scale``
    :param scale: a power of two by which the layer before it multiplies at no cost
    :param apply_few: the same for a small array, not multiplied
    :param backward: turns the gradient of its output into that of its input in place, given the output
    """

    apply: Callable[[th.Tensor], None]
    scale: int
    apply_few: Callable[[np.ndarray], Any]
    backward: Callable[[th.Tensor, th.Tensor], None]


def _tanh_of_half(hidden: th.Tensor) -> None:
    """
    As 2 sigmoid(x) - 1: less than half the time of ``tanh``. Its error of at most 2e-7 is below the rounding errors of
    the layers.
    """
    th.add(_MINUS_ONE, hidden.sigmoid_(), alpha=2, out=hidden)


def _tanh_backward(gradient: th.Tensor, output: th.Tensor) -> None:
    th.ops.aten.tanh_backward.grad_input(gradient, output, grad_input=gradient)


def _relu(hidden: th.Tensor) -> None:
    hidden.relu_()


def _relu_backward(gradient: th.Tensor, output: th.Tensor) -> None:
    th.ops.aten.threshold_backward.grad_input(gradient, output, 0, grad_input=gradient)


ACTIVATIONS: dict[type[nn.Module], Activation] = {
    nn.Tanh: Activation(_tanh_of_half, 2, lambda hidden: np.tanh(hidden, out=hidden), _tanh_backward),
    nn.ReLU: Activation(_relu, 1, lambda hidden: np.maximum(hidden, 0, out=hidden), _relu_backward),
}


class Workspace:
    """
    Memory that networks write to, by batch size. What one needs only briefly is shared with the others, so that it
    stays in the processor's cache.
    """

    def __init__(self) -> None:
        self._outputs: dict[tuple[Mlp, int], list[th.Tensor]] = {}
        self._gradients: dict[tuple[int, int, int], th.Tensor] = {}

    def outputs(self, mlp: Mlp, batch_size: int, widths: list[int]) -> list[th.Tensor]:
        """:return: memory for each layer's output, the same at each call"""
        if (mlp, batch_size) not in self._outputs:
            if len(self._outputs) >= 16:
                self._outputs.clear()  # batch sizes keep changing
                self._gradients.clear()
            self._outputs[mlp, batch_size] = [th.empty(batch_size, width) for width in widths]
        return self._outputs[mlp, batch_size]

    def gradient(self, batch_size: int, width: int, layer: int) -> th.Tensor:
        """:return: memory for the gradient of a layer's output, until that of the layer after the next is asked for"""
        key = (batch_size, width, layer % 2)
        if key not in self._gradients:
            self._gradients[key] = th.empty(batch_size, width)
        return self._gradients[key]


class Mlp:
    """
    Linear layers with one activation between them, and none after the last.

    Inputs are vectors, or integers that stand for one-hot vectors: they select columns of the first layer's weights.
    The layers' parameters are used in place, and their gradients are written to ``parameter.grad``, which must exist.
    Moving a parameter (``policy.to``) needs a new object.
    """

    def __init__(
        self, layers: list[nn.Linear], activation: type[nn.Module] | None, workspace: Workspace | None = None
    ) -> None:
        self._weights = [layer.weight.detach() for layer in layers]
        self._transposed = [weight.t() for weight in self._weights]
        self._biases = [layer.bias.detach() for layer in layers]
        self._arrays = [
            (weight.numpy(), bias.numpy()) for weight, bias in zip(self._transposed, self._biases, strict=True)
        ]
        self._weight_gradients = [_gradient(layer.weight) for layer in layers]
        self._bias_gradients = [_gradient(layer.bias) for layer in layers]
        self._widths = [layer.out_features for layer in layers]
        between = ACTIVATIONS[activation] if activation is not None else None
        self._activations = [between] * (len(layers) - 1) + [None]
        self._workspace = workspace or Workspace()
        self._inputs, self._outputs = th.empty(0), [th.empty(0)]

    def forward(self, inputs: th.Tensor) -> th.Tensor:
        """:return: the outputs, in memory that the next call with this batch size overwrites"""
        self._inputs = inputs
        self._outputs = self._workspace.outputs(self, len(inputs), self._widths)
        hidden = inputs
        for i, output in enumerate(self._outputs):
            activation = self._activations[i]
            scale = 1 if activation is None else activation.scale
            if hidden.dtype == th.int64:
                th.index_select(self._transposed[i], 0, hidden, out=output)
                output.add_(self._biases[i]).mul_(scale)
            else:
                th.addmm(self._biases[i], hidden, self._transposed[i], beta=scale, alpha=scale, out=output)
            if activation is not None:
                activation.apply(output)
            hidden = output
        return hidden

    def forward_few(self, inputs: np.ndarray) -> np.ndarray:
        """The same for a handful of inputs, where NumPy's calls take half as long as torch's."""
        hidden = inputs
        for (weight, bias), activation in zip(self._arrays, self._activations, strict=True):
            hidden = weight[hidden] if hidden.dtype == np.int64 else hidden @ weight
            hidden += bias
            if activation is not None:
                activation.apply_few(hidden)
        return hidden

    def backward(self, gradient: th.Tensor) -> None:
        """Write the gradients of the parameters for the last forward pass, given that of the outputs."""
        for i in range(len(self._weights) - 1, -1, -1):
            layer_inputs = self._outputs[i - 1] if i > 0 else self._inputs
            self._write_weight_gradient(self._weight_gradients[i], gradient, layer_inputs)
            th.sum(gradient, 0, out=self._bias_gradients[i])
            if i > 0:
                below = self._workspace.gradient(len(gradient), self._widths[i - 1], i - 1)
                gradient = th.mm(gradient, self._weights[i], out=below)
                before = self._activations[i - 1]
                if before is not None:
                    before.backward(gradient, layer_inputs)

    @staticmethod
    def _write_weight_gradient(weight_gradient: th.Tensor, gradient: th.Tensor, inputs: th.Tensor) -> None:
        if inputs.dtype == th.int64:
            weight_gradient.zero_().t().index_add_(0, inputs, gradient)
        elif inputs.shape[1] <= _NARROW:
            weight_gradient.copy_(th.mm(inputs.t(), gradient).t())
        else:
            th.mm(gradient.t(), inputs, out=weight_gradient)


def _gradient(parameter: th.Tensor) -> th.Tensor:
    assert parameter.grad is not None, "give the parameters a gradient first: see sb3_ext.fast.flat"
    return parameter.grad
