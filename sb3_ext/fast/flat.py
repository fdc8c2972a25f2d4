"""A policy's parameters, their gradients and Adam's moments, each in one vector: one clip and one step for all."""

from __future__ import annotations

import torch as th
from stable_baselines3.common.policies import BasePolicy

from sb3_ext.common.gradients import GradientNorms, split_parameters

__all__ = ["FlatAdam", "FlatParameters", "FlatSnapshot"]


class FlatParameters:
    """
    Moves a policy's parameters and gradients into two vectors, of which they become views: the policy works on as
    before, and so do its ``state_dict`` and its optimizer.

    :param policy: an actor-critic policy on the CPU
    """

    def __init__(self, policy: BasePolicy) -> None:
        actor, critic = split_parameters(policy)
        self.parameters = [*actor, *critic]
        n_actor = sum(parameter.numel() for parameter in actor)
        self.values = th.empty(sum(parameter.numel() for parameter in self.parameters))
        self.gradients = th.zeros_like(self.values)
        self._actor_gradients = self.gradients[:n_actor]
        self._critic_gradients = self.gradients[n_actor:]
        for parameter, value, gradient in zip(
            self.parameters, self.views(self.values), self.views(self.gradients), strict=True
        ):
            value.copy_(parameter.detach())
            parameter.data, parameter.grad = value, gradient
        self._gradient_views = [parameter.grad for parameter in self.parameters]

    def views(self, vector: th.Tensor) -> list[th.Tensor]:
        """
        :param vector: one number for each parameter
        :return: its parts in the shapes of the parameters, and in their memory layouts
        """
        sizes = [parameter.numel() for parameter in self.parameters]
        return [_like(part, parameter) for part, parameter in zip(vector.split(sizes), self.parameters, strict=True)]

    def bind_gradients(self) -> None:
        """Make the parameters' gradients views again: ``zero_grad`` has dropped them."""
        for parameter, gradient in zip(self.parameters, self._gradient_views, strict=True):
            parameter.grad = gradient

    def clip_gradients(self, max_norm: float) -> GradientNorms:
        """
        Clip the norm of all gradients together, as SB3 does.

        :param max_norm: the largest norm
        :return: the norms before clipping
        """
        actor, critic = _norm(self._actor_gradients), _norm(self._critic_gradients)
        total = (actor**2 + critic**2) ** 0.5
        _scale_down(self.gradients, total, max_norm)
        return {"grad_norm_actor": actor, "grad_norm_critic": critic, "grad_norm": total}

    def clip_gradients_apart(self, max_norm: float) -> GradientNorms:
        """
        Clip the norms of the actor's and the critic's gradients, each by itself.

        :param max_norm: the largest norm of each
        :return: the norms before clipping
        """
        actor, critic = _norm(self._actor_gradients), _norm(self._critic_gradients)
        _scale_down(self._actor_gradients, actor, max_norm)
        _scale_down(self._critic_gradients, critic, max_norm)
        return {"grad_norm_actor": actor, "grad_norm_critic": critic}


def _norm(gradients: th.Tensor) -> float:
    return float(th.linalg.vector_norm(gradients))


def _scale_down(gradients: th.Tensor, norm: float, max_norm: float) -> None:
    scale = max_norm / (norm + 1e-6)
    if not scale >= 1.0:  # also for NaN, which must not be hidden
        gradients.mul_(scale)


def _like(part: th.Tensor, parameter: th.Tensor) -> th.Tensor:
    channels_last = parameter.dim() == 4 and not parameter.is_contiguous()
    if channels_last and parameter.is_contiguous(memory_format=th.channels_last):
        out_channels, in_channels, height, width = parameter.shape
        return part.view(out_channels, height, width, in_channels).permute(0, 3, 1, 2)
    return part.view(parameter.shape)


class FlatAdam:
    """
    Adam's step on flat parameters, in one call. The moments are views in the state of the policy's own optimizer,
    which is saved and loaded as ever.

    :param optimizer: the policy's optimizer
    :param flat: the policy's parameters
    """

    def __init__(self, optimizer: th.optim.Optimizer, flat: FlatParameters) -> None:
        self._optimizer, self._flat = optimizer, flat
        self._moments = (th.zeros_like(flat.values), th.zeros_like(flat.values))
        self._step = th.zeros(())
        self._addresses: list[tuple[int, int]] = []

    @staticmethod
    def can_do(optimizer: th.optim.Optimizer, flat: FlatParameters) -> bool:
        """
        :param optimizer: the policy's optimizer
        :param flat: the policy's parameters
        :return: whether this does what it does: plain Adam, with one group of all parameters
        """
        if type(optimizer) is not th.optim.Adam or len(optimizer.param_groups) != 1 or not hasattr(th, "_fused_adam_"):
            return False
        group = optimizer.param_groups[0]
        if {id(parameter) for parameter in group["params"]} != {id(parameter) for parameter in flat.parameters}:
            return False
        unusual = ("weight_decay", "amsgrad", "maximize", "capturable", "differentiable")
        return not any(group.get(name) for name in unusual)

    def start(self) -> None:
        """To be called before an update: loading, resetting or stepping the optimizer has changed its state."""
        if not self._is_bound():
            self._bind()
        self._step.copy_(self._optimizer.state[self._flat.parameters[0]]["step"])

    def _is_bound(self) -> bool:
        return self._addresses == self._current_addresses()

    def _current_addresses(self) -> list[tuple[int, int]]:
        entries = [self._optimizer.state.get(parameter) for parameter in self._flat.parameters]
        return [(e["exp_avg"].data_ptr(), e["exp_avg_sq"].data_ptr()) if e else (0, 0) for e in entries]

    def step(self) -> None:
        """One step with the gradients as they are."""
        group = self._optimizer.param_groups[0]
        self._step += 1
        th._fused_adam_(
            [self._flat.values],
            [self._flat.gradients],
            [self._moments[0]],
            [self._moments[1]],
            [],
            [self._step],
            lr=group["lr"],
            beta1=group["betas"][0],
            beta2=group["betas"][1],
            weight_decay=0.0,
            eps=group["eps"],
            amsgrad=False,
            maximize=False,
        )

    def finish(self) -> None:
        """Tell the optimizer how many steps were made; to be called at the end of an update."""
        for parameter in self._flat.parameters:
            self._optimizer.state[parameter]["step"].copy_(self._step)

    def state(self) -> list[th.Tensor]:
        """All that a step changes."""
        return [self._flat.values, *self._moments, self._step]

    def _bind(self) -> None:
        """Take over the optimizer's moments, and put views of ours in their place."""
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


class FlatSnapshot:
    """
    A copy of a policy's parameters and of its optimizer's state, to go back to.

    :param adam: the optimizer, with the parameters that it steps
    """

    def __init__(self, adam: FlatAdam) -> None:
        self._adam = adam
        self._copies = [tensor.clone() for tensor in adam.state()]

    def restore(self) -> None:
        """Put them back to where they were."""
        for tensor, copy in zip(self._adam.state(), self._copies, strict=True):
            tensor.copy_(copy)
