"""A policy's parameters, their gradients and Adam's moments, each in one vector: one clip and one step for all."""

import mmap
from typing import NamedTuple

import torch as th
from stable_baselines3.common.policies import BasePolicy

from sb3_ext.common.updates import GradientNorms, split_parameters

__all__ = ["AdamPart", "AdamSettings", "FlatAdam", "FlatBackup", "FlatParameters", "clipping_scale"]

#: Floats per cache line
_CACHE_LINE = 16


class FlatParameters:
    """
    Moves a policy's parameters and gradients into two vectors, of which they become views. The policy works as before,
    and so do its ``state_dict`` and its optimizer. A fork of this process sees the same vectors.
    """

    def __init__(self, policy: BasePolicy) -> None:
        actor, critic = split_parameters(policy)
        self.parameters = [*actor, *critic]
        n_actor = sum(_room(parameter) for parameter in actor)
        n_all = n_actor + sum(_room(parameter) for parameter in critic)
        self.actor, self.critic = slice(n_actor), slice(n_actor, n_all)
        self.values, self.gradients = _zeros(n_all), _zeros(n_all)
        self._actor_gradients = self.gradients[self.actor]
        self._critic_gradients = self.gradients[self.critic]
        for parameter, value, gradient in zip(
            self.parameters, self.views(self.values), self.views(self.gradients), strict=True
        ):
            value.copy_(parameter.detach())
            parameter.data, parameter.grad = value, gradient
        self._gradient_views = [parameter.grad for parameter in self.parameters]

    def views(self, vector: th.Tensor) -> list[th.Tensor]:
        """:return: parts of a vector as long as ``values``, in the shapes and memory layouts of the parameters"""
        parts = vector.split([_room(parameter) for parameter in self.parameters])
        return [_like(part, parameter) for part, parameter in zip(parts, self.parameters, strict=True)]

    def bind_gradients(self) -> None:
        """Make the parameters' gradients views again: ``zero_grad`` has dropped them."""
        for parameter, gradient in zip(self.parameters, self._gradient_views, strict=True):
            parameter.grad = gradient

    def clip_gradients(self, max_norm: float) -> GradientNorms:
        """Clip the norm of all gradients together, as SB3 does; returns the norms before clipping."""
        actor, critic = _norm(self._actor_gradients), _norm(self._critic_gradients)
        total = (actor**2 + critic**2) ** 0.5
        _scale_down(self.gradients, clipping_scale(total, max_norm))
        return {"grad_norm_actor": actor, "grad_norm_critic": critic, "grad_norm": total}

    def clip_gradients_separately(self, max_norm: float) -> GradientNorms:
        """Clip the norms of the actor's and the critic's gradients separately; returns the norms before clipping."""
        actor, critic = _norm(self._actor_gradients), _norm(self._critic_gradients)
        _scale_down(self._actor_gradients, clipping_scale(actor, max_norm))
        _scale_down(self._critic_gradients, clipping_scale(critic, max_norm))
        return {"grad_norm_actor": actor, "grad_norm_critic": critic}


def clipping_scale(norm: float, max_norm: float) -> float:
    """:return: what to multiply the gradients by, where it is below 1"""
    return max_norm / (norm + 1e-6)


def _norm(gradients: th.Tensor) -> float:
    return float(th.linalg.vector_norm(gradients))


def _scale_down(gradients: th.Tensor, scale: float) -> None:
    if not scale >= 1.0:  # also for NaN, which must not be hidden
        gradients.mul_(scale)


def _zeros(n: int) -> th.Tensor:
    """A vector in memory that this process shares with its forks."""
    return th.frombuffer(mmap.mmap(-1, max(1, 4 * n)), dtype=th.float32, count=n)


def _room(parameter: th.Tensor) -> int:
    """Each parameter starts on its own cache line; the gaps between them stay 0."""
    return -(-parameter.numel() // _CACHE_LINE) * _CACHE_LINE


def _like(part: th.Tensor, parameter: th.Tensor) -> th.Tensor:
    part = part[: parameter.numel()]
    channels_last = parameter.dim() == 4 and not parameter.is_contiguous()
    if channels_last and parameter.is_contiguous(memory_format=th.channels_last):
        out_channels, in_channels, height, width = parameter.shape
        return part.view(out_channels, height, width, in_channels).permute(0, 3, 1, 2)
    return part.view(parameter.shape)


class AdamSettings(NamedTuple):
    """Adam's hyperparameters at a step."""

    lr: float
    betas: tuple[float, float]
    eps: float


class AdamPart:
    """Clips and steps some of the parameters."""

    def __init__(self, flat: FlatParameters, moments: tuple[th.Tensor, th.Tensor], part: slice) -> None:
        self._values, self._gradients = [flat.values[part]], [flat.gradients[part]]
        self._first, self._second = ([moment[part]] for moment in moments)

    def norm(self) -> float:
        return _norm(self._gradients[0])

    def step(self, number: th.Tensor, settings: AdamSettings, scale: float = 1.0) -> None:
        """
        :param number: how many steps have been made, this one included
        :param scale: the :func:`clipping_scale` of the gradients
        """
        _scale_down(self._gradients[0], scale)
        th._fused_adam_(
            self._values,
            self._gradients,
            self._first,
            self._second,
            [],
            [number],
            lr=settings.lr,
            beta1=settings.betas[0],
            beta2=settings.betas[1],
            weight_decay=0.0,
            eps=settings.eps,
            amsgrad=False,
            maximize=False,
        )


class FlatAdam:
    """
    Adam's step on flat parameters, in one call. The moments are views in the state of the policy's own optimizer, which
    is saved and loaded as before.
    """

    #: They stay the same during an update
    settings: AdamSettings

    def __init__(self, optimizer: th.optim.Optimizer, flat: FlatParameters) -> None:
        self._optimizer, self._flat = optimizer, flat
        n = len(flat.values)
        self._moments = (_zeros(n), _zeros(n))
        self._whole = self.part(slice(n))
        self._step = th.zeros(())
        self._addresses: list[tuple[int, int]] = []

    @staticmethod
    def can_do(optimizer: th.optim.Optimizer, flat: FlatParameters) -> bool:
        """:return: whether this can replace the optimizer: plain Adam, with all parameters in one group"""
        if type(optimizer) is not th.optim.Adam or len(optimizer.param_groups) != 1 or not hasattr(th, "_fused_adam_"):
            return False
        group = optimizer.param_groups[0]
        if {id(parameter) for parameter in group["params"]} != {id(parameter) for parameter in flat.parameters}:
            return False
        unusual = ("weight_decay", "amsgrad", "maximize", "capturable", "differentiable")
        return not any(group.get(name) for name in unusual)

    def start(self) -> None:
        """To be called before an update: the optimizer may have been loaded, reset or stepped since the last one."""
        if not self._is_bound():
            self._bind()
        self._step.copy_(self._optimizer.state[self._flat.parameters[0]]["step"])
        group = self._optimizer.param_groups[0]
        self.settings = AdamSettings(float(group["lr"]), group["betas"], group["eps"])

    def _is_bound(self) -> bool:
        return self._addresses == self._current_addresses()

    def _current_addresses(self) -> list[tuple[int, int]]:
        entries = [self._optimizer.state.get(parameter) for parameter in self._flat.parameters]
        return [(e["exp_avg"].data_ptr(), e["exp_avg_sq"].data_ptr()) if e else (0, 0) for e in entries]

    def part(self, part: slice) -> AdamPart:
        return AdamPart(self._flat, self._moments, part)

    def step(self) -> None:
        self._whole.step(self.count_step(), self.settings)

    def count_step(self) -> th.Tensor:
        """:return: how many steps have been made, with the one that is about to be"""
        self._step += 1
        return self._step

    def finish(self) -> None:
        """Tell the optimizer how many steps were made."""
        for parameter in self._flat.parameters:
            self._optimizer.state[parameter]["step"].copy_(self._step)

    def state(self) -> list[th.Tensor]:
        """Everything that a step changes."""
        return [self._flat.values, *self._moments, self._step]

    def _bind(self) -> None:
        """Copy the optimizer's moments, and put views of ours in their place."""
        state = self._optimizer.state
        views = zip(*(self._flat.views(moment) for moment in self._moments), strict=True)
        for parameter, (first, second) in zip(self._flat.parameters, views, strict=True):
            entry = state.get(parameter)
            step = th.zeros(())
            if entry:
                first.copy_(entry["exp_avg"])
                second.copy_(entry["exp_avg_sq"])
                step.copy_(entry["step"])
            else:
                first.zero_()
                second.zero_()
            state[parameter] = {"step": step, "exp_avg": first, "exp_avg_sq": second}
        self._addresses = self._current_addresses()


class FlatBackup:
    """A copy of the parameters and of the optimizer's state."""

    def __init__(self, adam: FlatAdam) -> None:
        self._adam = adam
        self._copies = [tensor.clone() for tensor in adam.state()]

    def restore(self) -> None:
        for tensor, copy in zip(self._adam.state(), self._copies, strict=True):
            tensor.copy_(copy)
