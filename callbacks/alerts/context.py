"""What rules of alerts look at: a row of metrics, what came before it, and what is known about the run."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from gymnasium import spaces
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm
from stable_baselines3.common.on_policy_algorithm import OnPolicyAlgorithm

from sb3_ext.callbacks.alerts.nonfinite import Fault
from sb3_ext.callbacks.alerts.score import Score
from sb3_ext.callbacks.observation_scale import WarnObservationScale
from sb3_ext.metrics.bounds import hard_bounds

__all__ = ["Look", "RuleFacts", "facts_of"]

#: Values of each metric that are kept from the start of a training, for rules that ask how it was then
_EARLY = 10
#: A policy is deterministic below this share of the largest possible entropy, or of the deviations at the start
_DETERMINISTIC = 0.05


@dataclass(frozen=True)
class RuleFacts:
    """
    What is known of a run before it starts.

    :param algorithms: names of the algorithm, its base classes and its kind in small letters, such as ``ppo``,
        ``reinforce``, ``on_policy``
    :param n_envs: environments side by side
    :param start: timesteps at the start
    :param total: timesteps at the end
    :param max_entropy: of a policy on discrete actions, in nats; ``None`` for continuous ones
    :param action_dims: numbers that an action has
    :param threshold: the score from which on the environment is solved
    :param max_episode_steps: of an episode, where there is a limit
    :param sees_raw_observations: whether the policy gets vectors that nothing normalises
    :param options: hyperparameters of the algorithm that rules ask for
    :param bounds_of: gives the values that a metric can't be below or above
    """

    algorithms: frozenset[str] = frozenset()
    n_envs: int = 1
    start: int = 0
    total: int = 0
    max_entropy: float | None = None
    action_dims: int = 1
    threshold: float | None = None
    max_episode_steps: int | None = None
    sees_raw_observations: bool = False
    options: Mapping[str, Any] = field(default_factory=dict)
    bounds_of: Callable[[str], tuple[float, float]] = lambda name: (-math.inf, math.inf)

    def progress(self, step: int) -> float:
        """
        :param step: timesteps
        :return: share of the training that is over
        """
        length = self.total - self.start
        return min(max((step - self.start) / length, 0.0), 1.0) if length > 0 else 1.0


class Look:
    """
    What a rule sees of a row.

    :param facts: about the run
    """

    def __init__(self, facts: RuleFacts) -> None:
        self.facts = facts
        self.score = Score(facts.threshold)
        self.step = 0
        self.progress = 0.0
        #: Numbers of this row
        self.row: Mapping[str, float] = {}
        #: The latest number of each metric, from this row or an earlier one
        self.known: dict[str, float] = {}
        #: What was found to be NaN or infinite beside the row
        self.faults: list[Fault] = []
        # Set for each rule
        self.metric = ""
        self.value = math.nan
        self.memory: dict[str, Any] = {}
        self._early: dict[str, list[float]] = {}
        #: Metrics of which there are enough early values
        self._settled: set[str] = set()

    def enter(self, step: int, row: Mapping[str, float]) -> None:
        """
        :param step: timesteps
        :param row: its numbers
        """
        self.step, self.row = step, row
        self.progress = self.facts.progress(step)
        self.known.update(row)
        for name in row.keys() - self._settled:
            early = self._early.setdefault(name, [])
            early.append(row[name])
            if len(early) == _EARLY:
                self._settled.add(name)
        self.score.success_rate = row.get("rollout/success_rate", self.score.success_rate)
        score = row.get("rollout/ep_rew_mean")
        if score is not None and math.isfinite(score):
            self.score.add(score, self.progress)

    def early(self, name: str) -> list[float]:
        """
        :param name: a metric
        :return: its values in the first rows that had it, ten at most
        """
        return self._early.get(name, [])

    def share_of_start(self, name: str) -> float:
        """
        :param name: a metric that is positive at the start
        :return: its latest value over its first one; 1 where there is none
        """
        early = self.early(name)
        return self.known[name] / early[0] if early and early[0] > 0 else 1.0

    @property
    def is_deterministic(self) -> bool:
        """Whether the policy hardly tries anything any more: then updates are small whatever the learning rate is."""
        randomness = self.randomness
        return randomness is not None and randomness < _DETERMINISTIC

    @property
    def learns_slowly_on_purpose(self) -> bool:
        """Whether a schedule has brought the learning rate down to where small updates are meant."""
        return self.share_of_start("train/learning_rate") < 0.2

    def is_doing_well(self, patience: float) -> bool:
        """
        :param patience: share of the training
        :return: whether the task is solved, or the score has improved within that share, or rises
        """
        score = self.score
        has_improved = score.learned and self.progress - score.improved_at < patience
        return score.solved or has_improved or score.rises(patience)

    @property
    def randomness(self) -> float | None:
        """
        How random the policy still is: for discrete actions the share of the largest possible entropy; for continuous
        ones, and where actions are masked, compared with the start, as a factor of the standard deviation.
        """
        name = "policy/entropy" if "policy/entropy" in self.known else "train/entropy_loss"
        sign = 1.0 if name == "policy/entropy" else -1.0
        if name not in self.known:
            return None
        entropy, first = sign * self.known[name], sign * self.early(name)[0]
        if self.facts.max_entropy is None:
            return math.exp(min((entropy - first) / self.facts.action_dims, 50.0))
        most = first if "maskableppo" in self.facts.algorithms else self.facts.max_entropy
        return entropy / most if most > 0 else None


def facts_of(model: BaseAlgorithm, threshold: float | None) -> RuleFacts:
    """
    :param model: at the start of its training
    :param threshold: the score from which on the environment is solved, if it is known
    """
    names = {cls.__name__.lower() for cls in type(model).__mro__}
    kinds = {"on_policy": isinstance(model, OnPolicyAlgorithm), "off_policy": isinstance(model, OffPolicyAlgorithm)}
    names |= {kind for kind, applies in kinds.items() if applies}
    if hasattr(model, "clip_range"):
        names.add("ppo")  # RecurrentPPO and MaskablePPO are no subclasses of PPO
    episode_steps = hard_bounds("rollout/ep_len_mean", model)[1]
    options = ("baseline", "n_epochs", "normalize_values", "value_loss", "normalize_advantage")
    return RuleFacts(
        algorithms=frozenset(names),
        n_envs=model.n_envs,
        start=model._num_timesteps_at_start,
        total=model._total_timesteps,
        threshold=threshold,
        max_episode_steps=int(episode_steps) if math.isfinite(episode_steps) else None,
        sees_raw_observations=_sees_raw_observations(model),
        options={name: getattr(model, name) for name in options if hasattr(model, name)},
        bounds_of=lambda name: hard_bounds(name, model),
        **_facts_of_actions(model.action_space),
    )


def _sees_raw_observations(model: BaseAlgorithm) -> bool:
    warning = WarnObservationScale()
    warning.init_callback(model)
    return not warning._is_normalized() and any(True for _ in warning._keys())


def _facts_of_actions(space: spaces.Space) -> dict[str, Any]:
    if isinstance(space, spaces.Discrete):
        sizes = [int(space.n)]
    elif isinstance(space, spaces.MultiDiscrete):
        sizes = [int(size) for size in space.nvec.flatten()]
    elif isinstance(space, spaces.MultiBinary):
        sizes = [2] * math.prod(space.shape)
    else:
        return {"action_dims": max(math.prod(space.shape or ()), 1)}
    return {"max_entropy": sum(math.log(size) for size in sizes), "action_dims": len(sizes)}
