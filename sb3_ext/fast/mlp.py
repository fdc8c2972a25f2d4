"""A multi-layer perceptron, asked and differentiated by hand: for small networks, autograd costs more than the sums."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch as th
from torch import nn

__all__ = ["ACTIVATIONS", "Activation", "Mlp"]


class Activation(NamedTuple):
    """
    :param apply: computes it in place
    :param apply_few: the same for a small array
    :param backward: turns the gradient of its output into that of its input in place, given the output
    """

    apply: Callable[[th.Tensor], None]
    apply_few: Callable[[np.ndarray], Any]
    backward: Callable[[th.Tensor, th.Tensor], None]


def _tanh(hidden: th.Tensor) -> None:
    if th.get_num_threads() == 1:
        array = hidden.numpy()
        np.tanh(array, out=array)  # a fifth faster than torch's on one thread
    else:
        hidden.tanh_()


def _tanh_backward(gradient: th.Tensor, output: th.Tensor) -> None:
    th.ops.aten.tanh_backward.grad_input(gradient, output, grad_input=gradient)


def _relu(hidden: th.Tensor) -> None:
    hidden.relu_()


def _relu_backward(gradient: th.Tensor, output: th.Tensor) -> None:
    th.ops.aten.threshold_backward.grad_input(gradient, output, 0, grad_input=gradient)


ACTIVATIONS: dict[type[nn.Module], Activation] = {
    nn.Tanh: Activation(_tanh, lambda hidden: np.tanh(hidden, out=hidden), _tanh_backward),
    nn.ReLU: Activation(_relu, lambda hidden: np.maximum(hidden, 0, out=hidden), _relu_backward),
}


class _Workspace:
    """Memory for one batch size: each layer's output, and the gradient of it."""

    def __init__(self, batch_size: int, widths: list[int]) -> None:
        self.outputs = [th.empty(batch_size, width) for width in widths]
        self.gradients = [th.empty(batch_size, width) for width in widths]


class Mlp:
    """
    Linear layers with one activation between them, and none after the last.

    Inputs are vectors, or whole numbers that stand for one-hot vectors: they pick columns of the first layer's weights.

    The layers' parameters are used where they are, and their gradients are written to ``parameter.grad``, which must
    be there: what moves a parameter (``policy.to``) needs a new object.

    :param layers: the linear layers
    :param activation: the activation after each of them but the last
    """

    def __init__(self, layers: list[nn.Linear], activation: type[nn.Module] | None) -> None:
        self._weights = [layer.weight.detach() for layer in layers]
        self._transposed = [weight.t() for weight in self._weights]
        self._biases = [layer.bias.detach() for layer in layers]
        self._arrays = [
            (weight.numpy(), bias.numpy()) for weight, bias in zip(self._transposed, self._biases, strict=True)
        ]
        self._weight_gradients = [_gradient(layer.weight) for layer in layers]
        self._bias_gradients = [_gradient(layer.bias) for layer in layers]
        self._widths = [layer.out_features for layer in layers]
        self._activation = ACTIVATIONS[activation] if activation is not None else None
        self._workspaces: dict[int, _Workspace] = {}
        self._inputs = th.empty(0)
        self._workspace = _Workspace(0, self._widths)

    def forward(self, inputs: th.Tensor) -> th.Tensor:
        """
        :param inputs: a batch of them
        :return: the outputs, in memory that the next call with a batch of this size uses again
        """
        self._inputs = inputs
        self._workspace = self._get_workspace(len(inputs))
        hidden, last = inputs, len(self._weights) - 1
        for i, output in enumerate(self._workspace.outputs):
            if hidden.dtype == th.int64:
                th.index_select(self._transposed[i], 0, hidden, out=output)
                output += self._biases[i]
            else:
                th.addmm(self._biases[i], hidden, self._transposed[i], out=output)
            if i < last and self._activation is not None:
                self._activation.apply(output)
            hidden = output
        return hidden

    def forward_few(self, inputs: np.ndarray) -> np.ndarray:
        """
        The same for a handful of inputs, on which NumPy's calls take half as long as torch's.

        :param inputs: a batch of them
        :return: the outputs
        """
        hidden, last = inputs, len(self._weights) - 1
        for i, (weight, bias) in enumerate(self._arrays):
            hidden = weight[hidden] if hidden.dtype == np.int64 else hidden @ weight
            hidden += bias
            if i < last and self._activation is not None:
                self._activation.apply_few(hidden)
        return hidden

    def backward(self, gradient: th.Tensor) -> None:
        """
        Write the gradients of the parameters, for the batch that was asked about last.

        :param gradient: the gradient of the loss with respect to the outputs
        """
        outputs, gradients = self._workspace.outputs, self._workspace.gradients
        for i in range(len(self._weights) - 1, -1, -1):
            layer_inputs = outputs[i - 1] if i > 0 else self._inputs
            if layer_inputs.dtype == th.int64:
                self._weight_gradients[i].zero_().t().index_add_(0, layer_inputs, gradient)
            else:
                th.mm(gradient.t(), layer_inputs, out=self._weight_gradients[i])
            th.sum(gradient, 0, out=self._bias_gradients[i])
            if i > 0:
                gradient = th.mm(gradient, self._weights[i], out=gradients[i - 1])
                if self._activation is not None:
                    self._activation.backward(gradient, layer_inputs)

    def _get_workspace(self, batch_size: int) -> _Workspace:
        workspace = self._workspaces.get(batch_size)
        if workspace is None:
            if len(self._workspaces) >= 8:
                self._workspaces.clear()  # batches of ever new sizes
            workspace = self._workspaces[batch_size] = _Workspace(batch_size, self._widths)
        return workspace


def _gradient(parameter: th.Tensor) -> th.Tensor:
    assert parameter.grad is not None, "give the parameters a gradient first: see sb3_ext.fast.flat"
    return parameter.grad
