"""The variants of PPO with the options of :mod:`sb3_ext.ppo_ext.update`."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Any, ClassVar

import numpy as np
import torch as th
from sb3_contrib import MaskablePPO, RecurrentPPO
from stable_baselines3 import PPO
from stable_baselines3.common.policies import BasePolicy
from stable_baselines3.common.type_aliases import RolloutBufferSamples

from sb3_ext.common.names import described_parameters, extends
from sb3_ext.common.policies import LSTM_POLICIES, MASKABLE_POLICIES, POLICIES
from sb3_ext.common.popart import PopArtHead
from sb3_ext.common.updates import MinibatchMetrics, PolicyOutput, evaluate_batch
from sb3_ext.fast.algorithm import ALONE, FastAlgorithm
from sb3_ext.fast.critic_process import CriticProcessFailed
from sb3_ext.fast.mlp_policy import FastMlpPolicy
from sb3_ext.fast.rollouts import DeferringRolloutBuffer
from sb3_ext.ppo_ext.kl_guard import KLGuard
from sb3_ext.ppo_ext.loss import LossSettings
from sb3_ext.ppo_ext.split_steps import SplitSteps, TimedSteps
from sb3_ext.ppo_ext.steps import FastSteps, MinibatchSteps
from sb3_ext.ppo_ext.update import PPOUpdate

__all__ = ["MaskablePPOExt", "PPOExt", "RecurrentPPOExt"]


class PPOExt(FastAlgorithm, PPOUpdate, PPO):
    __doc__ = f"""
    Proximal Policy Optimization with extras. With all of them off, as by default, it trains as SB3's
    :class:`~stable_baselines3.PPO` does from the same seed (to the last bit with ``fast=False``); all of PPO's
    parameters are taken too.
    {PPOUpdate.__doc__}
{described_parameters(FastAlgorithm)}
{described_parameters(PPO)}"""

    policy_aliases: ClassVar[dict[str, type[BasePolicy]]] = POLICIES
    __init__ = extends(extends(PPO.__init__)(PPOUpdate.__init__))(FastAlgorithm.__init__)

    def _train_on_rollout(self, settings: LossSettings) -> tuple[MinibatchMetrics, KLGuard, int]:
        n_updates = self._n_updates
        try:
            return super()._train_on_rollout(settings)
        except CriticProcessFailed as failure:
            # All parameters are as before the update: do it again, in this process
            assert isinstance(self._fast_policy, FastMlpPolicy)
            self._fast_policy.do_without_process(failure)
            self._n_updates = n_updates
            return super()._train_on_rollout(settings)

    def _make_steps(self, settings: LossSettings, metrics: MinibatchMetrics) -> MinibatchSteps:
        policy = self.fast_policy
        asks_otherwise = type(self)._evaluate is not PPOExt._evaluate
        if policy is None or asks_otherwise or type(self.rollout_buffer) is not DeferringRolloutBuffer:
            return super()._make_steps(settings, metrics)
        rollout = (self.rollout_buffer, self.batch_size, settings, metrics, self._normalize_values)
        # Going back needs all parameters at rest after each step
        stays_here = self.fast == ALONE or self.kl_rollback
        if stays_here or not isinstance(policy, FastMlpPolicy) or not policy.can_split():
            return FastSteps(policy, *rollout)
        way = policy.faster_of.choose()
        try:
            steps = SplitSteps(policy, *rollout) if way else FastSteps(policy, *rollout)
        except CriticProcessFailed as failure:
            policy.do_without_process(failure)
            return FastSteps(policy, *rollout)
        return TimedSteps(steps, policy.faster_of, way)

    def _normalize_values(self, values: np.ndarray) -> np.ndarray:
        head = self.policy.value_net
        return head.normalize(th.from_numpy(values)).numpy() if isinstance(head, PopArtHead) else values


class RecurrentPPOExt(PPOUpdate, RecurrentPPO):
    __doc__ = f"""
    sb3-contrib's :class:`~sb3_contrib.RecurrentPPO` (PPO with an LSTM) with the same extras.
    {PPOUpdate.__doc__}
{described_parameters(RecurrentPPO)}"""

    policy_aliases: ClassVar[dict[str, type[BasePolicy]]] = LSTM_POLICIES
    __init__ = extends(RecurrentPPO.__init__)(PPOUpdate.__init__)

    def _evaluate(self, batch: Any) -> tuple[PolicyOutput, RolloutBufferSamples]:
        values, log_prob, entropy = evaluate_batch(self.policy, batch, batch.lstm_states, batch.episode_starts)
        # Sequences are padded to one length; what is padding is left out of everything
        real = batch.mask > 1e-8
        samples = {name: getattr(batch, name)[real] for name in ("old_values", "old_log_prob", "advantages", "returns")}
        output = PolicyOutput(values[real], log_prob[real], None if entropy is None else entropy[real])
        return output, batch._replace(**samples)

    def _rollout_batches(self) -> Iterable[Any]:
        # The buffer has to cut and pad sequences
        return self.rollout_buffer.get(self.batch_size)


class MaskablePPOExt(PPOUpdate, MaskablePPO):
    __doc__ = f"""
    sb3-contrib's :class:`~sb3_contrib.MaskablePPO` (PPO that is told which actions are possible) with the same extras.
    {PPOUpdate.__doc__}
{described_parameters(MaskablePPO)}"""

    policy_aliases: ClassVar[dict[str, type[BasePolicy]]] = MASKABLE_POLICIES
    __init__ = extends(MaskablePPO.__init__)(PPOUpdate.__init__)

    def predict(self, *args: Any, **kwargs: Any) -> Any:
        if len(args) < 5 and kwargs.get("action_masks") is None:
            warnings.warn(
                "MaskablePPOExt plays without action masks, so it may take actions that are not possible: pass "
                "action_masks=get_action_masks(env) (RL Zoo's enjoy can't).",
                stacklevel=2,
            )
        return super().predict(*args, **kwargs)

    def _evaluate(self, batch: Any) -> tuple[PolicyOutput, RolloutBufferSamples]:
        return evaluate_batch(self.policy, batch, action_masks=batch.action_masks), batch
