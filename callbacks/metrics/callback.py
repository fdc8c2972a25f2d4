"""The metrics that SB3 leaves out: time, collected data, the policy's behaviour, and updates.

All are computed when the logger writes a row, so a training step costs next to nothing. Training is not affected: no
random numbers, no changes of the policy, and bounded memory.
"""

import math
import time
from collections.abc import Callable, Mapping
from typing import Annotated, Any, ClassVar

import numpy as np
from pydantic import Field
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm
from stable_baselines3.common.on_policy_algorithm import OnPolicyAlgorithm

from sb3_ext.callbacks.base import RunCallback, ScoreOptions
from sb3_ext.callbacks.metrics.action_statistics import ActionStatistics
from sb3_ext.callbacks.metrics.info_metrics import InfoMetrics
from sb3_ext.callbacks.metrics.network_statistics import draw_sample, initial_policy, network_statistics
from sb3_ext.callbacks.metrics.recent_data import RecentData, recent_transitions, thinned, whole_rollout
from sb3_ext.callbacks.metrics.rollout_statistics import (
    ObservationStatistics,
    RecentRewards,
    summarize,
    value_statistics,
)
from sb3_ext.callbacks.metrics.time_metrics import TimeBudget, TimeMetrics
from sb3_ext.callbacks.metrics.update_statistics import entropy, gradient_norms, scaled_losses
from sb3_ext.common.env_checks import env_diversity
from sb3_ext.common.options import Fraction, Number, Strings, read_keywords
from sb3_ext.metrics.bounds import hard_bounds
from sb3_ext.metrics.sample_efficiency import SampleEfficiency
from sb3_ext.runs.rows import Guard

__all__ = ["Metrics", "MetricsOptions"]

#: Formats that can't draw a histogram
_NO_HISTOGRAMS = ("stdout", "log", "json", "csv")
#: Only in SB3's rows about the training, not in those of evaluations
_OF_TRAINING = "time/fps"


class MetricsOptions(ScoreOptions):
    """
    :param threshold: see :class:`ScoreOptions`; ``rollout/steps_to_threshold`` is about it
    :param histograms: record histograms of observations, rewards and actions, for TensorBoard and W&B
    :param histogram_seconds: minimum time between histograms
    :param network: pass observations through the policy's networks: dead ReLUs, largest probabilities
    :param max_cost: fraction of the training time that ``network`` may take; it then runs for fewer rows
    :param info: keys of numbers in the environments' ``info``, logged as ``info/<key>``; see :class:`InfoMetrics`
    """

    callback: ClassVar[str] = "sb3_ext.callbacks.metrics.Metrics"

    histograms: bool = True
    histogram_seconds: Annotated[Number, Field(ge=0)] = 10.0
    network: bool = True
    max_cost: Annotated[Fraction, Field(gt=0)] = 0.002
    info: Strings = ()


class Metrics(RunCallback):
    """
    Adds metrics to the rows that the logger writes, see docs/metrics.md. Works with every SB3 algorithm. For off-policy
    ones, statistics of observations and actions cover the latest transitions in the replay buffer.

    :param options: what to record
    :param verbose: verbosity
    :param fields: fields of :class:`MetricsOptions`, instead of ``options``
    """

    state_names: ClassVar[tuple[str, ...]] = (
        "_last_step",
        "_efficiency",
        "_episodes",
        "_episodes_before",
        "_times",
        "_rewards",
        "_info",
    )

    def __init__(self, *, options: MetricsOptions | None = None, verbose: int = 0, **fields: Any) -> None:
        super().__init__(verbose)
        self.options = read_keywords(MetricsOptions, options, fields, self)
        self._next_histograms = -math.inf
        self._efficiency: SampleEfficiency | None = None
        self._guard = Guard("Metrics")
        #: Of the last update before a resume, by the number of updates: a model is saved without its gradients
        self._saved_norms: tuple[int, dict[str, float]] = (-1, {})

    def _on_training_start(self) -> None:
        model, n_envs = self.model, self.training_env.num_envs
        self._last_step = model.num_timesteps
        if self._efficiency is None or model.num_timesteps == 0:
            self._efficiency = SampleEfficiency(model.num_timesteps, self.run.threshold)
            self._episodes = self._episodes_before = 0
        self._times = TimeMetrics(model.num_timesteps, n_envs)
        self._budget = TimeBudget(self.options.max_cost)
        self._rewards = RecentRewards(n_envs)
        self._info = InfoMetrics(self.options.info) if self.options.info else None
        self._observations = ObservationStatistics(model.observation_space, model.policy.normalize_images)
        # Off-policy algorithms scale actions to between -1 and 1, whatever the policy is
        squashed = isinstance(model, OffPolicyAlgorithm) or model.policy.squash_output
        self._actions = ActionStatistics(model.action_space, squashed)
        self._largest_entropy = hard_bounds("policy/entropy", model)[1]
        self._is_first_rollout = model.num_timesteps == 0 and model._n_updates == 0
        #: A rollout is complete and has not been learned from
        self._has_rollout = False
        self.run.rows.add_source(self._complete_row)
        self.run.write_last_row()

    def state(self) -> dict[str, Any]:
        norms = self._part(self._gradient_norms, self.logger.name_to_value)
        return {**super().state(), "norms": (self.model._n_updates, norms)}

    def restore(self, state: Mapping[str, Any]) -> None:
        super().restore(state)
        self._saved_norms = state["norms"]

    def _on_step(self) -> bool:
        # Called at each step, so keep it fast
        rewards = self.locals.get("rewards")
        if rewards is not None:  # ARS has none
            self._rewards.add(rewards)
            self._episodes += int(np.count_nonzero(self.locals["dones"]))
            if self._info is not None:
                self._info.add(self.locals["infos"], self.locals["dones"])
        return True

    def _on_rollout_start(self) -> None:
        self._has_rollout = False

    def _on_rollout_end(self) -> None:
        self._has_rollout = isinstance(self.model, OnPolicyAlgorithm)
        if self._is_first_rollout:
            self._is_first_rollout = False
            for name, value in self._part(self._initial_policy).items():
                self.logger.record(name, value)

    def _on_training_end(self) -> None:
        self._has_rollout = False

    def _initial_policy(self) -> dict[str, float]:
        """Computed at once, because the first row may come after many updates."""
        data = self._recent_data()
        if not self.options.network or data is None or not isinstance(self.model, OnPolicyAlgorithm):
            return {}
        return initial_policy(self.model, draw_sample(data, self.model.rollout_buffer))

    def _complete_row(self, step: int, values: Mapping[str, Any]) -> Mapping[str, Any]:
        found = self._part(entropy, values)
        found |= self._part(scaled_losses, self.model, values) | self._part(self._gradient_norms, values)
        if step >= self.num_timesteps:  # the row of a slow evaluation is about the past
            found |= self._part(self._time, step, values)
        score = values.get("rollout/ep_rew_mean")
        if score is not None and self._efficiency is not None:
            found |= self._part(self._efficiency.add, step, float(score))
        if _OF_TRAINING in values:
            if self._info is not None:
                found |= self._part(self._info.take)
            # Alerts report numbers that are not finite
            with np.errstate(all="ignore"):
                found = self._part(self._collected_metrics, step, values) | found
        return {name: value for name, value in found.items() if name not in values}

    def _part(self, compute: Callable[..., dict[str, float]], *args: Any) -> dict[str, float]:
        """If one part raises an error, the others are still computed."""
        return self._guard.run(compute.__qualname__.removeprefix("Metrics._"), compute, *args) or {}

    def _gradient_norms(self, values: Mapping[str, Any]) -> dict[str, float]:
        n_updates, norms = self._saved_norms
        return norms if n_updates == self.model._n_updates else gradient_norms(self.model, values)

    def _time(self, step: int, values: Mapping[str, Any]) -> dict[str, float]:
        model = self.model
        metrics = self._times.measure(step, model._total_timesteps, _OF_TRAINING in values)
        metrics["time/n_updates"] = model._n_updates
        # Off-policy algorithms count episodes themselves, and continue after loading
        is_off_policy = isinstance(model, OffPolicyAlgorithm)
        metrics["time/episodes"] = model._episode_num if is_off_policy else self._episodes
        return metrics

    def _recent_data(self) -> RecentData | None:
        model = self.model
        if isinstance(model, OnPolicyAlgorithm):
            return whole_rollout(model.rollout_buffer) if self._has_rollout else None
        if isinstance(model, OffPolicyAlgorithm) and model.replay_buffer is not None:
            n_steps = (self.num_timesteps - self._last_step) // self.training_env.num_envs
            return recent_transitions(model.replay_buffer, n_steps, model.get_vec_normalize_env())
        return None

    def _collected_metrics(self, step: int, values: Mapping[str, Any]) -> dict[str, float]:
        """The data collected since the last row."""
        metrics: dict[str, float] = {}
        rewards = self._rewards.take()
        if rewards.size:
            metrics |= summarize(rewards).named("env/reward")
        data = self._recent_data()
        self._last_step = step
        if isinstance(self.model, OnPolicyAlgorithm):
            metrics["rollout/episodes"] = self._episodes - self._episodes_before
            self._episodes_before = self._episodes
        if data is None:
            return metrics
        observations, actions = self._observations.sample(data), self._actions.sample(data)
        metrics |= self._part(self._observations.describe, observations) | self._part(self._actions.describe, actions)
        if isinstance(self.model, OnPolicyAlgorithm):
            buffer = self.model.rollout_buffer
            metrics |= self._part(value_statistics, buffer)
            estimate = -float(np.add.reduce(buffer.log_probs, axis=None)) / buffer.log_probs.size
            metrics["policy/entropy"] = min(estimate, self._largest_entropy)
        if self.options.network and self._budget.allows:
            with self._budget.spending():
                metrics |= self._part(self._network_metrics, data, values)
        if self.options.histograms and time.perf_counter() >= self._next_histograms:
            self._next_histograms = time.perf_counter() + self.options.histogram_seconds
            self._record_histogram("env/obs_hist", observations)
            self._record_histogram("env/reward_hist", thinned(rewards, self.training_env.num_envs))
            self._record_histogram("policy/action_hist", self._actions.numbers(actions))
        return metrics

    def _network_metrics(self, data: RecentData, values: Mapping[str, Any]) -> dict[str, float]:
        buffer = self.model.rollout_buffer if isinstance(self.model, OnPolicyAlgorithm) else None
        metrics = network_statistics(self.model, draw_sample(data, buffer))
        observations = data.observations
        compares = buffer is not None and data.n_axes == 2 and data.n_envs > 1
        if compares and isinstance(observations, np.ndarray) and "rollout/env_diversity" not in values:
            diversity = env_diversity(observations)
            if diversity is not None:
                metrics["rollout/env_diversity"] = diversity
        return metrics

    def _record_histogram(self, name: str, numbers: np.ndarray) -> None:
        finite = numbers[np.isfinite(numbers)]
        if finite.size:
            self.logger.record(name, finite, exclude=_NO_HISTOGRAMS)
