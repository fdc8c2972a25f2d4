"""What the network looks at: how much each pixel changes the log probability of the action."""

from typing import Any

import numpy as np
import torch as th
from gymnasium import spaces
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.preprocessing import preprocess_obs
from stable_baselines3.common.vec_env.base_vec_env import VecEnvObs

__all__ = ["saliency"]


def saliency(model: BaseAlgorithm, observations: VecEnvObs, key: str) -> np.ndarray | None:
    """
    :param observations: of all environments; the first counts
    :param key: of the image in a Dict observation; ``""`` if the observation is an image
    :return: height x width, from 0 to 1; ``None`` if the policy has neither a distribution nor Q-values
    """
    policy: Any = model.policy
    tensors, _ = policy.obs_to_tensor(observations)
    first = {name: part[:1] for name, part in tensors.items()} if isinstance(tensors, dict) else tensors[:1]
    inputs = preprocess_obs(first, policy.observation_space, normalize_images=policy.normalize_images)
    image = inputs[key] if isinstance(inputs, dict) else inputs
    image.requires_grad_()
    with th.enable_grad():
        score = _score(policy, inputs)
        if score is None:
            return None
        (gradient,) = th.autograd.grad(score, image)
    weights = gradient[0].abs().amax(dim=0).cpu().numpy()  # channels come first in the network
    high = np.quantile(weights, 0.995)
    return weights / high if high > 0 else weights


def _score(policy: Any, inputs: Any) -> th.Tensor | None:
    if hasattr(policy, "q_net"):
        network = policy.q_net
        return network.q_net(network.features_extractor(inputs)).max()
    if not hasattr(policy, "mlp_extractor") or hasattr(policy, "lstm_actor"):
        return None
    extractor = policy.pi_features_extractor
    latent = policy.mlp_extractor.forward_actor(extractor(inputs))
    outputs = policy.action_net(latent)
    if isinstance(policy.action_space, spaces.Discrete):
        return outputs.log_softmax(dim=-1).max()
    return outputs.abs().sum()
