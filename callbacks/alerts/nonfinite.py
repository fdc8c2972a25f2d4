"""Finds NaN and infinity where they begin: in the policy's parameters, in observations and in rewards."""

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import torch as th
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.on_policy_algorithm import OnPolicyAlgorithm
from torch.utils.hooks import RemovableHandle

from sb3_ext.callbacks.metrics.network_statistics import asking
from sb3_ext.common.updates import split_parameters

__all__ = [
    "NonFinite",
    "ParameterWatch",
    "TrainingDiverged",
    "broken_observations",
    "broken_rewards",
    "find_broken_parameters",
    "has_broken_losses",
    "is_finite",
]

#: Norm of all parameters above which the policy's output can overflow; it is usually below 1000
_HUGE = 1e4
_FROM_ENV = (
    "They come from the environment, so no hyperparameter helps. Check what step() and the wrappers compute "
    "(stable_baselines3.common.vec_env.VecCheckNan finds the step)."
)


class TrainingDiverged(FloatingPointError):
    """The policy, its observations or its rewards are no longer finite, so there is nothing left to train."""


def is_finite(array: np.ndarray) -> bool:
    if array.dtype.kind != "f":
        return True
    flat = array.ravel()
    # On small arrays, a dot product is several times faster than np.isfinite, but it can overflow
    return math.isfinite(flat.dot(flat)) or bool(np.isfinite(flat).all())


class NonFinite(NamedTuple):
    """Something that is not finite."""

    what: str
    metric: str = "train/loss"  # parameters have no metric
    advice: str = ""


def broken_observations(observations: Any) -> list[NonFinite]:
    parts = observations if isinstance(observations, Mapping) else {None: observations}
    return [
        NonFinite(
            f"{'observations' if key is None else f'the observation {key!r}'}{_which(part)}", "env/obs_mean", _FROM_ENV
        )
        for key, part in parts.items()
        if not is_finite(part)
    ]


def broken_rewards(rewards: np.ndarray, n_envs: int) -> list[NonFinite]:
    """``rewards`` has the environments on its last axis, or is a flat array of episodes."""
    if is_finite(rewards):
        return []
    which = _which(np.atleast_2d(rewards).T) if rewards.shape[-1] == n_envs else ""
    return [NonFinite(f"rewards{which}", "env/reward_mean", _FROM_ENV)]


def _which(numbers: np.ndarray) -> str:
    """The environments whose row in ``numbers`` is not finite."""
    broken = [str(index) for index, row in enumerate(numbers) if not np.isfinite(row).all()]
    return f" of environment{'s' if len(broken) > 1 else ''} {', '.join(broken)}"


def has_broken_losses(values: Mapping[str, Any]) -> bool:
    """Whether a recorded number of the update is not finite."""
    return any(
        type(value) is float and not math.isfinite(value) and name.startswith("train/")
        for name, value in values.items()
    )


def find_broken_parameters(model: BaseAlgorithm) -> list[NonFinite]:
    parameters = list(model.policy.parameters())
    if not parameters:
        return []
    norm = float(th.nn.utils.get_total_norm(parameters))
    if norm < _HUGE:
        return []
    broken = [name for name, value in model.policy.named_parameters() if not bool(th.isfinite(value).all())]
    if broken:
        more = f" and {len(broken) - 1} more" if len(broken) > 1 else ""
        return [NonFinite(f"the policy's parameters ({broken[0]}{more})")]
    return [NonFinite("the policy's output")] if _puts_out_nan(model) else []


def _puts_out_nan(model: BaseAlgorithm) -> bool:
    """Evaluate the policy on the latest observations, as the next step will. Draws no random numbers."""
    policy: Any = model.policy
    if not isinstance(model, OnPolicyAlgorithm) or hasattr(policy, "lstm_actor") or model._last_obs is None:
        return False
    with asking(policy):
        observations, _ = policy.obs_to_tensor(model._last_obs)
        try:
            policy.get_distribution(observations)
        except ValueError:
            return True  # torch checks the parameters of a distribution
        return not bool(th.isfinite(policy.predict_values(observations)).all())


class ParameterWatch:
    """
    Checks one small parameter after each optimizer step: an update makes many steps, and torch fails in the one after
    the policy broke. If gradients are clipped together, NaN in one is NaN in all. Calls ``suspect`` if the parameter is
    huge or not finite.
    """

    def __init__(self, model: BaseAlgorithm, suspect: Callable[[], None]) -> None:
        self._suspect = suspect
        self._watched = list(_small_parameters(model))
        # On a GPU, reading a number waits for all pending work
        steps_too = model.device.type == "cpu"
        self._hooks = [self._watch(*watched) for watched in self._watched] if steps_too else []

    def _watch(self, optimizer: th.optim.Optimizer, parameter: th.Tensor) -> RemovableHandle:
        return optimizer.register_step_post_hook(lambda *_: self._look_at(parameter))

    def _look_at(self, parameter: th.Tensor) -> None:
        if not -_HUGE < float(parameter.detach().sum()) < _HUGE:
            self._suspect()

    def check(self) -> None:
        """Check now, because not all updates go through these optimizers."""
        for _, parameter in self._watched:
            self._look_at(parameter)

    def close(self) -> None:
        """Remove the hooks."""
        for hook in self._hooks:
            hook.remove()
        self._hooks = []


def _small_parameters(model: BaseAlgorithm) -> Iterator[tuple[th.optim.Optimizer, th.Tensor]]:
    """One per optimizer; from the actor of an actor-critic policy, since values can be large."""
    policy = model.policy
    if isinstance(model, OnPolicyAlgorithm):
        actor, _ = split_parameters(policy)
        yield policy.optimizer, min(actor, key=th.numel)
        return
    for part in (policy, getattr(policy, "actor", None), getattr(policy, "critic", None)):
        optimizer = getattr(part, "optimizer", None)
        if isinstance(optimizer, th.optim.Optimizer):
            yield optimizer, min((value for group in optimizer.param_groups for value in group["params"]), key=th.numel)
