"""Where the fast path applies, and why not elsewhere."""

from __future__ import annotations

from gymnasium import spaces
from stable_baselines3.common.on_policy_algorithm import OnPolicyAlgorithm
from stable_baselines3.common.policies import ActorCriticPolicy
from stable_baselines3.common.preprocessing import is_image_space
from stable_baselines3.common.torch_layers import FlattenExtractor, MlpExtractor
from torch import nn

from sb3_ext.fast.heads import make_head
from sb3_ext.fast.mlp import ACTIVATIONS

__all__ = ["why_not"]

#: What the fast path does in another way; a policy that has its own is left alone.
_METHODS = (
    "forward",
    "evaluate_actions",
    "extract_features",
    "get_distribution",
    "predict_values",
    "_get_action_dist_from_latent",
)


def why_not(algorithm: OnPolicyAlgorithm) -> str | None:
    """
    :param algorithm: an algorithm that is set up
    :return: why the fast path can't be taken, as the end of a sentence; ``None`` when it can
    """
    policy = algorithm.policy
    if algorithm.device.type != "cpu":
        return f"the device is {algorithm.device}"
    if algorithm.use_sde:
        return "of gSDE"
    changed = [name for name in _METHODS if getattr(type(policy), name) is not getattr(ActorCriticPolicy, name, None)]
    if changed:
        return f"{type(policy).__name__} has its own {changed[0]}"
    return _why_not_observations(policy) or _why_not_networks(policy)


def _why_not_observations(policy: ActorCriticPolicy) -> str | None:
    space = policy.observation_space
    if not isinstance(space, spaces.Box) or is_image_space(space):
        return f"of its observations ({type(space).__name__}{' of images' if isinstance(space, spaces.Box) else ''})"
    if type(policy.features_extractor) is not FlattenExtractor:
        return f"of the features extractor {type(policy.features_extractor).__name__}"
    return None


def _why_not_networks(policy: ActorCriticPolicy) -> str | None:
    if type(policy.mlp_extractor) is not MlpExtractor:
        return f"of the network {type(policy.mlp_extractor).__name__}"
    for network in (policy.mlp_extractor.policy_net, policy.mlp_extractor.value_net):
        layers = list(network)
        kinds = {type(layer) for layer in layers[1::2]}
        alternate = all(type(layer) is nn.Linear and layer.bias is not None for layer in layers[::2])
        if not alternate or len(layers) % 2 or len(kinds) > 1 or not kinds <= set(ACTIVATIONS):
            return f"of the layers {', '.join(dict.fromkeys(type(layer).__name__ for layer in layers))}"
    for head in (policy.action_net, policy.value_net):
        if type(head) is not nn.Linear:
            return f"of the head {type(head).__name__}"
    if make_head(policy.action_space, _with_gradient(policy)) is None:
        return f"of its actions ({type(policy.action_space).__name__})"
    if not all(parameter.requires_grad for parameter in policy.parameters()):
        return "some of its parameters are frozen"
    return None


def _with_gradient(policy: ActorCriticPolicy) -> nn.Parameter | None:
    log_std = getattr(policy, "log_std", None)
    if log_std is not None and log_std.grad is None:
        log_std.grad = log_std.detach().clone().zero_()
    return log_std
