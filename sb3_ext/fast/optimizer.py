"""A policy's optimizer, as arrays that the kernel changes in place: what is saved and loaded stays the optimizer's."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch as th
from stable_baselines3.common.sb2_compat.rmsprop_tf_like import RMSpropTFLike

__all__ = ["OptimizerArrays", "OptimizerState"]

#: Options that the kernel does not have
_UNUSUAL = ("weight_decay", "amsgrad", "maximize", "capturable", "differentiable", "decoupled_weight_decay", "momentum",
            "centered")  # fmt: skip


class _Kind(NamedTuple):
    """
    :param number: the kernel's
    :param first: name of the first moments, if any
    :param second: name of the second moments
    :param initial: value of the second moments before the first step
    """

    number: int
    first: str | None
    second: str
    initial: float


_KINDS: dict[type[th.optim.Optimizer], _Kind] = {
    th.optim.Adam: _Kind(0, "exp_avg", "exp_avg_sq", 0.0),
    RMSpropTFLike: _Kind(1, None, "square_avg", 1.0),
}


class OptimizerArrays(NamedTuple):
    """Of some parameters; the kernel does without moments where it leaves the step to torch."""

    parameters: list[np.ndarray]
    gradients: list[np.ndarray]
    first: list[np.ndarray] | None
    second: list[np.ndarray] | None


class OptimizerState:
    """:param optimizer: one that :meth:`can_do`"""

    def __init__(self, optimizer: th.optim.Optimizer, parameters: Sequence[th.nn.Parameter]) -> None:
        self._optimizer, self._parameters = optimizer, list(parameters)
        self._kind = _KINDS[type(optimizer)]

    @staticmethod
    def can_do(optimizer: th.optim.Optimizer, parameters: Sequence[th.nn.Parameter]) -> bool:
        if type(optimizer) not in _KINDS or len(optimizer.param_groups) != 1:
            return False
        group = optimizer.param_groups[0]
        same = {id(parameter) for parameter in group["params"]} == {id(parameter) for parameter in parameters}
        return same and not any(group.get(name) for name in _UNUSUAL)

    def arrays(self, parameters: Sequence[th.nn.Parameter]) -> OptimizerArrays:
        """:return: views; to be asked for before each update, because the optimizer may have been loaded or reset"""
        moments = [self._entry(parameter) for parameter in parameters]
        names = (self._kind.first, self._kind.second)
        first, second = ([entry[name].numpy() for entry in moments] if name else None for name in names)
        return OptimizerArrays([p.detach().numpy() for p in parameters], gradients_of(parameters), first, second)

    def _entry(self, parameter: th.nn.Parameter) -> dict[str, Any]:
        entry: dict[str, Any] = self._optimizer.state[parameter]
        if not entry:
            entry["step"] = th.zeros(()) if self._kind.first else 0
            for name, value in ((self._kind.first, 0.0), (self._kind.second, self._kind.initial)):
                if name:
                    entry[name] = th.full_like(parameter, value, requires_grad=False)
        return entry

    def settings(self) -> tuple[int, float, float, float, float]:
        """:return: the kernel's number, learning rate, both betas and eps"""
        group = self._optimizer.param_groups[0]
        betas = group.get("betas") or (0.0, group.get("alpha"))
        return self._kind.number, float(group["lr"]), *betas, group["eps"]

    def step_with_adam(self) -> None:
        """Make a step in one call of torch, which its own optimizer makes in many."""
        entries = [self._entry(parameter) for parameter in self._parameters]
        _, lr, beta1, beta2, eps = self.settings()
        for entry in entries:
            entry["step"] += 1
        th._fused_adam_(
            [parameter.detach() for parameter in self._parameters],
            [parameter.grad for parameter in self._parameters if parameter.grad is not None],
            [entry["exp_avg"] for entry in entries],
            [entry["exp_avg_sq"] for entry in entries],
            [],
            [entry["step"] for entry in entries],
            lr=lr,
            beta1=beta1,
            beta2=beta2,
            weight_decay=0.0,
            eps=eps,
            amsgrad=False,
            maximize=False,
        )

    @property
    def n_steps(self) -> float:
        return float(self._entry(self._parameters[0])["step"])

    @n_steps.setter
    def n_steps(self, n_steps: float) -> None:
        for parameter in self._parameters:
            entry = self._optimizer.state[parameter]
            if isinstance(entry["step"], th.Tensor):
                entry["step"].fill_(n_steps)
            else:
                entry["step"] = int(n_steps)


def gradients_of(parameters: Sequence[th.nn.Parameter]) -> list[np.ndarray]:
    """:return: memory for the gradients, which ``zero_grad`` has dropped"""
    for parameter in parameters:
        if parameter.grad is None:
            parameter.grad = th.zeros_like(parameter)
    return [parameter.grad.numpy() for parameter in parameters if parameter.grad is not None]
