"""Where the fast path applies, and why not elsewhere."""

from __future__ import annotations

from gymnasium import spaces
from stable_baselines3.common.on_policy_algorithm import OnPolicyAlgorithm
from stable_baselines3.common.policies import ActorCriticPolicy
from stable_baselines3.common.preprocessing import is_image_space
from torch import nn

from sb3_ext.common.popart import PopArtHead
from sb3_ext.fast.heads import has_head
from sb3_ext.fast.image_policy import FastImagePolicy
from sb3_ext.fast.mlp_policy import FastMlpPolicy
from sb3_ext.fast.policy import FastPolicy, has_hooks

__all__ = ["find_fast_policy"]

#: What the fast path does in another way; a policy that has its own is left alone.
_METHODS = (
    "forward",
    "evaluate_actions",
    "extract_features",
    "get_distribution",
    "predict_values",
    "_get_action_dist_from_latent",
)


def find_fast_policy(algorithm: OnPolicyAlgorithm) -> type[FastPolicy] | str:
    """
    :param algorithm: an algorithm that is set up
    :return: the fast path for its policy; or why there is none, as the end of a sentence
    """
    policy = algorithm.policy
    if algorithm.device.type != "cpu":
        return f"the device is {algorithm.device}"
    if algorithm.use_sde:
        return "of gSDE"
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


def _why_not_heads(policy: ActorCriticPolicy) -> str | None:
    if type(policy.action_net) is not nn.Linear or type(policy.value_net) not in (nn.Linear, PopArtHead):
        return f"of the heads {type(policy.action_net).__name__} and {type(policy.value_net).__name__}"
    if not has_head(policy.action_space):
        return f"of its actions ({type(policy.action_space).__name__})"
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
