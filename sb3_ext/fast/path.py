"""The fast path of an algorithm: where it applies and why not elsewhere, and how rollouts and predictions take it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from gymnasium import spaces
from stable_baselines3.common.buffers import RolloutBuffer
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.distributions import StateDependentNoiseDistribution
from stable_baselines3.common.on_policy_algorithm import OnPolicyAlgorithm
from stable_baselines3.common.policies import ActorCriticPolicy
from stable_baselines3.common.preprocessing import is_image_space
from stable_baselines3.common.vec_env import VecEnv
from torch import nn

from sb3_ext.common.clean_text import say
from sb3_ext.common.fast_path import ALONE
from sb3_ext.common.popart import PopArtHead
from sb3_ext.fast import kernel
from sb3_ext.fast.collect import collect_rollout
from sb3_ext.fast.image_policy import FastImagePolicy
from sb3_ext.fast.mlp_policy import FastMlpPolicy
from sb3_ext.fast.policy import FastPolicy, has_hooks, head_of
from sb3_ext.fast.rollouts import DeferredValuesBuffer, DeferredValuesRolloutBuffer

__all__ = ["CpuFastPath", "find_fast_policy"]

#: The fast path replaces these; a policy with a version of its own takes the plain path
_METHODS = (
    "forward",
    "evaluate_actions",
    "extract_features",
    "get_distribution",
    "predict_values",
    "_get_action_dist_from_latent",
)


class CpuFastPath:
    """The :class:`~sb3_ext.common.fast_path.FastPath` of the usual policies on the CPU."""

    buffer_class: type[RolloutBuffer] = DeferredValuesRolloutBuffer

    def __init__(self) -> None:
        self._policy: FastPolicy | None = None
        self._told_why_not = False

    def __reduce__(self) -> tuple[type[CpuFastPath], tuple[()]]:
        return type(self), ()  # a copy of the algorithm finds its own policy

    def policy_of(self, algorithm: Any) -> FastPolicy | None:
        found = self._find(algorithm)
        if isinstance(found, str) and not self._told_why_not:
            self._told_why_not = True
            name = type(algorithm).__name__
            say(f"{name} takes the plain path, not the fast one, because {found}.", algorithm.verbose)
        return found if isinstance(found, FastPolicy) else None

    def _find(self, algorithm: Any) -> FastPolicy | str | None:
        """The policy, the reason why there is none, or ``None`` where the path is off."""
        if not algorithm.fast:
            return None
        if self._policy is None or not self._policy.is_of(algorithm.policy):
            self._policy = None
            found = find_fast_policy(algorithm)
            if isinstance(found, str):
                return found
            self._policy = found(algorithm.policy)
            self._policy.may_thread = algorithm.fast != ALONE and _n_cores() > 1
        return self._policy

    def collect(
        self,
        algorithm: Any,
        env: VecEnv,
        callback: BaseCallback,
        buffer: RolloutBuffer,
        n_steps: int,
        plain: Callable[[], bool],
        on_complete: Callable[[RolloutBuffer], None],
    ) -> bool:
        policy = self.policy_of(algorithm)
        if not isinstance(buffer, DeferredValuesBuffer):
            return plain()
        buffer.on_complete = on_complete
        try:
            if policy is None:
                return plain()
            buffer.evaluate = policy.evaluate_rollout
            return collect_rollout(algorithm, policy, env, callback, buffer, n_steps)
        finally:
            buffer.on_complete = buffer.evaluate = None  # they would keep the algorithm alive

    @contextmanager
    def predicting(self, algorithm: Any) -> Iterator[None]:
        policy, found = algorithm.policy, self._find(algorithm)
        is_stock = all(
            getattr(type(policy), name) is getattr(ActorCriticPolicy, name) and name not in vars(policy)
            for name in ("predict", "_predict")
        )
        if not isinstance(found, FastPolicy) or not is_stock:
            yield
            return
        # SB3 switches training mode off at each step, module by module, which takes longer than all the rest
        policy.set_training_mode(False)
        shadows: dict[str, Any] = {"predict": found.predict, "set_training_mode": lambda mode: None}
        vars(policy).update(shadows)
        try:
            yield
        finally:
            for name in shadows:
                del vars(policy)[name]


def find_fast_policy(algorithm: OnPolicyAlgorithm) -> type[FastPolicy] | str:
    """:return: the fast path for the algorithm's policy; or why there is none, as the end of a sentence"""
    policy = algorithm.policy
    if kernel.WHY_NOT is not None:
        return kernel.WHY_NOT
    if algorithm.device.type != "cpu":
        return f"the device is {algorithm.device}"
    for name in _METHODS:
        if getattr(type(policy), name) is not getattr(ActorCriticPolicy, name) or name in vars(policy):
            return f"{type(policy).__name__} has its own {name}"
    reason = _why_not_parameters(policy) or _why_not_heads(policy)
    if reason is not None:
        return reason
    space = policy.observation_space
    if not isinstance(space, (spaces.Box, spaces.Discrete)):
        return f"of its observations ({type(space).__name__})"
    found: type[FastMlpPolicy | FastImagePolicy] = FastImagePolicy if is_image_space(space) else FastMlpPolicy
    return found.why_not(policy) or found


def _n_cores() -> int:
    """Of those that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _why_not_heads(policy: ActorCriticPolicy) -> str | None:
    if type(policy.action_net) is not nn.Linear or type(policy.value_net) not in (nn.Linear, PopArtHead):
        return f"of the heads {type(policy.action_net).__name__} and {type(policy.value_net).__name__}"
    if head_of(policy.action_space) is None:
        return f"of its actions ({type(policy.action_space).__name__})"
    noise = policy.action_dist
    if isinstance(noise, StateDependentNoiseDistribution):
        if is_image_space(policy.observation_space):
            return "of gSDE with images"
        if noise.use_expln or noise.bijector is not None or noise.learn_features or noise.latent_sde_dim is None:
            return "of gSDE's options"
        if policy.log_std.shape != (noise.latent_sde_dim, noise.action_dim):
            return "of gSDE with full_std=False"
    return None


def _why_not_parameters(policy: ActorCriticPolicy) -> str | None:
    if not all(parameter.requires_grad for parameter in policy.parameters()):
        return "some of its parameters are frozen"
    optimized = {id(parameter) for group in policy.optimizer.param_groups for parameter in group["params"]}
    if any(id(parameter) not in optimized for parameter in policy.parameters()):
        return "its optimizer does not have all of its parameters"
    if any(parameter._backward_hooks for parameter in policy.parameters()) or any(map(has_hooks, policy.modules())):
        return "it has hooks"
    for module in policy.modules():
        if isinstance(module, (nn.Linear, nn.Conv2d)) and not isinstance(
            module._parameters.get("weight"), nn.Parameter
        ):
            return "its weights are computed from other parameters"
    return None
