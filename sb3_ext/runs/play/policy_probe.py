"""What a policy does in a state, and its values and probabilities, for every kind of policy of SB3 and sb3-contrib."""

import math
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import torch as th
from gymnasium import spaces
from sb3_contrib.common.maskable.policies import MaskableActorCriticPolicy
from sb3_contrib.common.recurrent.policies import RecurrentActorCriticPolicy
from sb3_contrib.common.recurrent.type_aliases import RNNStates
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.distributions import Distribution
from stable_baselines3.common.policies import ActorCriticPolicy
from stable_baselines3.common.vec_env.base_vec_env import VecEnvObs

__all__ = ["ActionDetails", "Actor", "PolicyProbe"]

#: Of more probabilities than this, only the largest is kept
_MAX_COLUMNS = 64


@dataclass(frozen=True)
class ActionDetails:
    """Actions of all environments; everything else is of the first one. NaN where the policy has no such number."""

    actions: np.ndarray
    #: Of the state; with Q-values, the largest one or that of the action
    value: float = math.nan
    log_prob: float = math.nan
    entropy: float = math.nan
    #: Probabilities, means and standard deviations, or Q-values, by name
    outputs: dict[str, float] = field(default_factory=dict)


class Actor(Protocol):
    """Whatever chooses actions; :class:`PolicyProbe` is one."""

    #: Whether it wants to know which actions are possible
    uses_masks: bool
    #: For returns and advantages
    gamma: float
    gae_lambda: float

    def act(self, observations: VecEnvObs, masks: np.ndarray | None = None) -> ActionDetails: ...
    def start_episodes(self, dones: np.ndarray) -> None: ...
    def value(self, observations: VecEnvObs) -> float: ...


class PolicyProbe:
    """Acts with a model of SB3 from the start of an episode, and keeps the state of recurrent policies."""

    def __init__(self, model: BaseAlgorithm, n_envs: int, deterministic: bool) -> None:
        self._model = model
        self._policy: Any = model.policy
        self._deterministic = deterministic
        self.gamma, self.gae_lambda = (float(getattr(model, name, 1.0)) for name in ("gamma", "gae_lambda"))
        self.uses_masks = isinstance(model.policy, MaskableActorCriticPolicy)
        self._policy.set_training_mode(False)
        self._starts = th.ones(n_envs, device=model.device)
        self._memory = None
        if isinstance(self._policy, RecurrentActorCriticPolicy):
            layers, _, units = self._policy.lstm_hidden_state_shape
            zeros = th.zeros(layers, n_envs, units, device=model.device)
            self._memory = RNNStates((zeros, zeros), (zeros, zeros))

    @th.no_grad()
    def act(self, observations: VecEnvObs, masks: np.ndarray | None = None) -> ActionDetails:
        if isinstance(self._policy, ActorCriticPolicy) or self.uses_masks:
            return self._act_as_actor_critic(observations, masks)
        actions, _ = self._model.predict(observations, deterministic=self._deterministic)  # type: ignore[arg-type]
        q_values = self._q_of_all_actions(observations)
        if q_values is not None:
            return ActionDetails(actions, float(q_values.max()), outputs=_numbered("q", q_values))
        if hasattr(self._policy, "actor") and hasattr(self._policy, "critic"):
            return self._act_as_off_policy_actor(observations, actions)
        return ActionDetails(actions)

    def start_episodes(self, dones: np.ndarray) -> None:
        """Tell recurrent policies in which environments the next observation starts an episode."""
        self._starts = th.as_tensor(dones, dtype=th.float32, device=self._model.device)

    @th.no_grad()
    def value(self, observations: VecEnvObs) -> float:
        """:return: value of the first environment's observation, in an episode that continues"""
        policy = self._policy
        if isinstance(policy, (ActorCriticPolicy, MaskableActorCriticPolicy)):
            tensor, _ = policy.obs_to_tensor(observations)  # type: ignore[arg-type]
            memory = () if self._memory is None else (self._memory.vf, th.zeros_like(self._starts))
            return policy.predict_values(tensor, *memory)[0].item()
        q_values = self._q_of_all_actions(observations)
        if q_values is not None:
            return float(q_values.max())
        if hasattr(policy, "actor") and hasattr(policy, "critic"):
            actions, _ = self._model.predict(observations, deterministic=True)  # type: ignore[arg-type]
            return min(self._q_of_actions(observations, policy.scale_action(actions)).tolist())
        return math.nan

    def _act_as_actor_critic(self, observations: VecEnvObs, masks: np.ndarray | None) -> ActionDetails:
        policy = self._policy
        tensor, _ = policy.obs_to_tensor(observations)
        if self._memory is not None:
            distribution, _ = policy.get_distribution(tensor, self._memory.pi, self._starts)
            entropy, outputs = _entropy(distribution), _outputs(distribution)
            actions, values, log_probs, memory = policy.forward(
                tensor, self._memory, self._starts, deterministic=self._deterministic
            )
            self._memory = memory
        else:
            known = {"action_masks": masks} if self.uses_masks else {}
            distribution = policy.get_distribution(tensor, **known)
            entropy, outputs = _entropy(distribution), _outputs(distribution)
            actions = distribution.get_actions(deterministic=self._deterministic)
            log_probs, values = distribution.log_prob(actions), policy.predict_values(tensor)
        return ActionDetails(self._for_env(actions), values[0].item(), log_probs[0].item(), entropy, outputs)

    def _for_env(self, actions: th.Tensor) -> np.ndarray:
        """Within the bounds of the space, as ``predict`` does."""
        space = self._policy.action_space
        array = actions.cpu().numpy().reshape(-1, *space.shape)
        if not isinstance(space, spaces.Box):
            return array
        if self._policy.squash_output:
            return self._policy.unscale_action(array)
        return np.clip(array, space.low, space.high)

    def _q_of_all_actions(self, observations: VecEnvObs) -> np.ndarray | None:
        tensor, _ = self._policy.obs_to_tensor(observations)
        if hasattr(self._policy, "q_net"):
            return self._policy.q_net(tensor)[0].cpu().numpy()
        if hasattr(self._policy, "quantile_net"):
            return self._policy.quantile_net(tensor)[0].mean(dim=0).cpu().numpy()
        return None

    def _q_of_actions(self, observations: VecEnvObs, scaled_actions: np.ndarray) -> np.ndarray:
        """One number per critic."""
        tensor, _ = self._policy.obs_to_tensor(observations)
        answer = self._policy.critic(tensor, th.as_tensor(scaled_actions, device=self._model.device))
        if isinstance(answer, tuple):
            return np.array([critic[0].item() for critic in answer])
        return answer[0].mean(dim=-1).cpu().numpy()  # TQC: quantiles of each critic

    def _act_as_off_policy_actor(self, observations: VecEnvObs, actions: np.ndarray) -> ActionDetails:
        policy = self._policy
        scaled = policy.scale_action(actions)
        q_values = self._q_of_actions(observations, scaled)
        outputs, log_prob = _numbered("q", q_values), math.nan
        if hasattr(policy.actor, "get_action_dist_params"):
            tensor, _ = policy.obs_to_tensor(observations)
            mean, log_std, known = policy.actor.get_action_dist_params(tensor)
            distribution = policy.actor.action_dist.proba_distribution(mean, log_std, **known)
            outputs = {**_outputs(distribution), **outputs}
            log_prob = distribution.log_prob(th.as_tensor(scaled, device=self._model.device))[0].item()
        return ActionDetails(actions, min(q_values.tolist()), log_prob, outputs=outputs)


def _entropy(distribution: Distribution) -> float:
    entropy = distribution.entropy()
    return math.nan if entropy is None else entropy[0].item()


def _outputs(distribution: Any) -> dict[str, float]:
    """Parameters of the first environment's distribution."""
    parts = getattr(distribution, "distributions", None) or distribution.distribution
    if isinstance(parts, list):
        numbers = {f"{i}_{j}": p for i, part in enumerate(parts) for j, p in enumerate(part.probs[0].tolist())}
        return _limited({f"prob_{name}": number for name, number in numbers.items()})
    if hasattr(parts, "probs"):
        return _limited(_numbered("prob", parts.probs[0].cpu().numpy()))
    return {**_numbered("mean", parts.mean[0].cpu().numpy()), **_numbered("std", parts.stddev[0].cpu().numpy())}


def _numbered(name: str, numbers: np.ndarray) -> dict[str, float]:
    return {f"{name}_{index}": number for index, number in enumerate(np.ravel(numbers).tolist())}


def _limited(probabilities: dict[str, float]) -> dict[str, float]:
    return probabilities if len(probabilities) <= _MAX_COLUMNS else {"prob_max": max(probabilities.values())}
