"""REINFORCE: Monte-Carlo policy gradient on whole episodes."""

import warnings
from typing import Any, ClassVar, Literal

import numpy as np
import torch as th
from gymnasium import spaces
from stable_baselines3.common.buffers import RolloutBuffer
from stable_baselines3.common.on_policy_algorithm import OnPolicyAlgorithm
from stable_baselines3.common.policies import ActorCriticPolicy, BasePolicy
from stable_baselines3.common.type_aliases import GymEnv, Schedule
from stable_baselines3.common.utils import explained_variance

from sb3_ext.common.algorithm import ExtAlgorithm
from sb3_ext.common.fast_path import FastPath
from sb3_ext.common.names import arguments_of, check_choice, checked_keywords
from sb3_ext.common.policies import POLICIES
from sb3_ext.common.updates import (
    MinibatchMetrics,
    clip_separately_and_step,
    evaluate_batch,
    in_order,
    normalize_advantages,
    rollout_kl,
)
from sb3_ext.fast.path import CpuFastPath
from sb3_ext.fast.policy import FastLoss, FastPolicy, FastUpdate, LossKind
from sb3_ext.reinforce.episode_buffer import DictEpisodeBuffer, EpisodeBuffer
from sb3_ext.reinforce.loss import reinforce_loss

__all__ = ["REINFORCE"]

BASELINES = ("none", "mean", "value")
NORMALIZATIONS = ("off", "batch", "rollout")

#: Warn when so many rollouts of steps wait for the end of their episode
_MANY_ROLLOUTS_WAITING = 50


class REINFORCE(ExtAlgorithm):
    """
    REINFORCE (Williams, 1992) on whole episodes from vectorised environments.

    Each step is used exactly once, with the discounted sum of the rewards from it to the end of its episode. An episode
    that the end of a rollout cuts is carried over and used when it has ended. Its first steps were then taken by an
    older policy, and are weighted by the importance ratio, truncated at 1. An episode that a time limit cuts is
    bootstrapped from the value function, which is therefore trained with every baseline.

    :param policy: The policy model to use (MlpPolicy, CnnPolicy, MultiInputPolicy)
    :param env: The environment to learn from (if registered in Gymnasium, can be str)
    :param learning_rate: The learning rate, it can be a function of the remaining progress (from 1 to 0)
    :param n_steps: The number of steps to run in each environment before an update; an update needs a finished episode
    :param batch_size: Size of the minibatches, with one gradient step each; ``None`` makes one step on all samples
    :param gamma: Discount factor
    :param baseline: What to subtract from the returns: ``"value"`` (a learned state value), ``"mean"`` (their mean), or
        ``"none"``
    :param normalize_returns: Normalize the returns after subtracting the baseline: over the ``"rollout"``, over each
        ``"batch"``, or ``"off"``
    :param ent_coef: Entropy coefficient of the loss
    :param vf_coef: Value function coefficient of the loss; with 0 no value function is trained, and a time limit
        counts as the end of an episode
    :param max_grad_norm: The maximum norm of the gradient, for actor and critic separately
    :param max_episode_steps: Learn from longer episodes in parts, bootstrapped from the value function; this bounds the
        memory where episodes hardly ever end
    :param use_sde: Whether to use generalized State Dependent Exploration (gSDE)
    :param sde_sample_freq: Sample a new noise matrix every n steps when using gSDE
    :param rollout_buffer_class: A subclass of ``EpisodeBuffer``
    :param rollout_buffer_kwargs: Keyword arguments of the rollout buffer
    :param stats_window_size: Number of episodes to average in the logs of rewards and lengths
    :param tensorboard_log: The log location for TensorBoard
    :param monitor_wrapper: Whether to wrap a created environment in a ``Monitor``
    :param policy_kwargs: Additional arguments of the policy
    :param verbose: Verbosity level: 0 for no output, 1 for info messages, 2 for debug messages
    :param seed: Seed for the pseudo random generators
    :param device: Device (cpu, cuda, ...) on which the code should run
    :param fast: Take the fast path where it applies
    """

    policy_aliases: ClassVar[dict[str, type[BasePolicy]]] = POLICIES
    schedulable: ClassVar[tuple[str, ...]] = ("ent_coef", "vf_coef", "max_grad_norm", "gamma")
    fast_path_class: ClassVar[type[FastPath] | None] = CpuFastPath
    rollout_buffer: EpisodeBuffer
    _warned_waiting = False

    @checked_keywords
    def __init__(
        self,
        policy: str | type[ActorCriticPolicy],
        env: GymEnv | str | None,
        learning_rate: float | Schedule = 1e-3,
        n_steps: int = 1024,
        batch_size: int | None = None,
        gamma: float = 0.99,
        baseline: Literal["none", "mean", "value"] | None = "value",
        normalize_returns: Literal["off", "batch", "rollout", False] | None = "rollout",
        ent_coef: float = 0.0,
        vf_coef: float = 0.5,
        max_grad_norm: float = 0.5,
        max_episode_steps: int | None = None,
        use_sde: bool = False,
        sde_sample_freq: int = -1,
        *,
        rollout_buffer_class: type[RolloutBuffer] | None = None,
        rollout_buffer_kwargs: dict[str, Any] | None = None,
        stats_window_size: int = 100,
        tensorboard_log: str | None = None,
        monitor_wrapper: bool = True,
        policy_kwargs: dict[str, Any] | None = None,
        verbose: int = 0,
        seed: int | None = None,
        device: th.device | str = "auto",
        fast: bool | Literal["alone"] = True,
        _init_setup_model: bool = True,
    ) -> None:
        self.fast = fast
        self.batch_size = batch_size
        self.baseline = baseline
        self.normalize_returns = normalize_returns
        self.max_episode_steps = max_episode_steps
        super().__init__(
            **arguments_of(OnPolicyAlgorithm.__init__, locals()),
            gae_lambda=1.0,
            supported_action_spaces=(spaces.Box, spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary),
        )

    def _setup_model(self) -> None:
        super()._setup_model()
        if self.schedules.initial(self, "vf_coef") == 0:
            # The value function is not trained: make it zero, so that nothing is bootstrapped from its initial noise
            for parameter in self.policy.value_net.parameters():
                th.nn.init.zeros_(parameter)

    def _read_options(self) -> None:
        super()._read_options()
        # YAML reads a bare `off` as False, and `null` is a natural way to write none
        self.normalize_returns = self.normalize_returns or "off"
        self.baseline = self.baseline or "none"
        check_choice("baseline", self.baseline, BASELINES)
        check_choice("normalize_returns", self.normalize_returns, NORMALIZATIONS)
        if self.batch_size is not None and self.batch_size < 2:
            raise ValueError(f"batch_size={self.batch_size} must be at least 2, or None for one step on all samples.")
        if self.schedules.initial(self, "vf_coef") == 0 and (
            self.baseline == "value" or self.max_episode_steps is not None
        ):
            raise ValueError(
                "baseline='value' and max_episode_steps need a value function, and vf_coef=0 trains none: set vf_coef "
                "(0.5 is usual), or baseline='mean' and no max_episode_steps."
            )
        if self.rollout_buffer_class is None:
            is_dict = isinstance(self.observation_space, spaces.Dict)
            self.rollout_buffer_class = DictEpisodeBuffer if is_dict else EpisodeBuffer
        elif not issubclass(self.rollout_buffer_class, EpisodeBuffer):
            raise ValueError(
                f"rollout_buffer_class={self.rollout_buffer_class.__name__} must be a subclass of EpisodeBuffer."
            )
        self.rollout_buffer_kwargs = {**self.rollout_buffer_kwargs, "max_episode_steps": self.max_episode_steps}

    def train(self) -> None:
        """Update the policy from the episodes that ended in the last rollout."""
        buffer = self.rollout_buffer
        self.logger.record("rollout/episodes", buffer.n_episodes)
        self.logger.record("rollout/steps_waiting", buffer.n_waiting)
        if buffer.n_samples == 0:
            self._warn_if_many_wait()
            return

        self.policy.set_training_mode(True)
        self._update_learning_rate(self.policy.optimizer)
        buffer.advantages = self._subtract_baseline()
        policy: FastPolicy | None = self.fast_policy
        if policy is None:
            metrics = self._step_through_batches()
            kl = rollout_kl(self.policy, in_order(buffer, self.batch_size))
        else:
            metrics, kl = self._update_fast(policy)
        self._n_updates += 1
        self._log_update(metrics, kl)

    def _step_through_batches(self) -> MinibatchMetrics:
        metrics = MinibatchMetrics()
        for batch in self.rollout_buffer.get(self.batch_size):
            if self.normalize_returns == "batch":
                batch = batch._replace(advantages=normalize_advantages(batch.advantages))
            loss, of_loss = reinforce_loss(evaluate_batch(self.policy, batch), batch, self.ent_coef, self.vf_coef)
            metrics.add(**of_loss, **clip_separately_and_step(self.policy, loss, self.max_grad_norm))
        return metrics

    def _update_fast(self, policy: FastPolicy) -> tuple[MinibatchMetrics, float]:
        """Returns the metrics, and the KL divergence of the update."""
        buffer = self.rollout_buffer
        columns = (buffer.values, buffer.log_probs, buffer.advantages, buffer.returns)
        rollout = policy.prepare_rollout(buffer.observations, buffer.actions, columns)
        loss = FastLoss(
            kind=LossKind.POLICY_GRADIENT,
            normalize=self.normalize_returns == "batch",
            separate=True,
            ent_coef=self.ent_coef,
            vf_coef=self.vf_coef,
            max_norm=self.max_grad_norm,
        )
        result = FastUpdate(policy, rollout, loss, buffer.minibatch_bounds(self.batch_size)).run(1, None)
        return MinibatchMetrics(result.metrics), policy.kl(rollout)

    def _subtract_baseline(self) -> np.ndarray:
        buffer = self.rollout_buffer
        advantages = buffer.returns
        if self.baseline == "mean":
            advantages = advantages - advantages.mean()
        elif self.baseline == "value":
            advantages = advantages - buffer.values
        if self.normalize_returns == "rollout":
            advantages = normalize_advantages(advantages)
        return advantages

    def _log_update(self, metrics: MinibatchMetrics, kl: float) -> None:
        buffer = self.rollout_buffer
        metrics.log(self)
        self.logger.record("train/approx_kl", kl)
        if self.vf_coef > 0:
            self.logger.record("train/explained_variance", explained_variance(buffer.values, buffer.returns))

    def _warn_if_many_wait(self) -> None:
        buffer = self.rollout_buffer
        rollouts_waiting = buffer.n_waiting / (buffer.buffer_size * buffer.n_envs)
        if rollouts_waiting >= _MANY_ROLLOUTS_WAITING and not self._warned_waiting:
            self._warned_waiting = True
            warnings.warn(
                f"No episode has ended for {rollouts_waiting:.0f} rollouts, so REINFORCE has nothing to learn from and "
                f"keeps {buffer.n_waiting} steps in memory. Give the environment a time limit, or set "
                "max_episode_steps to learn from parts of an episode.",
                stacklevel=2,
            )
