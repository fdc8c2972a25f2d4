"""What a rule can see: a row of metrics, earlier rows, and facts about the run."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm
from stable_baselines3.common.on_policy_algorithm import OnPolicyAlgorithm

from sb3_ext.callbacks.alerts.nonfinite import NonFinite
from sb3_ext.callbacks.alerts.score import Score
from sb3_ext.callbacks.observation_scale import unnormalized_keys
from sb3_ext.common.stateful import Stateful
from sb3_ext.metrics.bounds import hard_bounds

__all__ = ["RuleContext", "RuleFacts", "facts_of"]

#: Number of early values to keep for each metric
_EARLY = 10
#: A policy is deterministic below this fraction of the maximum entropy, or of the initial standard deviation
_DETERMINISTIC = 0.05


@dataclass(frozen=True)
class RuleFacts:
    """
    What is known about a run before it starts.

    :param algorithms: the algorithm, its base classes and its kind in lower case, such as ``ppo``, ``reinforce``,
        ``on_policy``
    :param max_entropy: of a policy with discrete actions, in nats; ``None`` for continuous ones
    :param sees_raw_observations: the policy gets vectors that are not normalised
    :param options: hyperparameters that rules use
    :param bounds_of: hard bounds of a metric
    """

    algorithms: frozenset[str] = frozenset()
    n_envs: int = 1
    start: int = 0
    total: int = 0
    max_entropy: float | None = None
    action_dims: int = 1
    threshold: float | None = None
    max_episode_steps: float | None = None
    sees_raw_observations: bool = False
    options: Mapping[str, Any] = field(default_factory=dict)
    bounds_of: Callable[[str], tuple[float, float]] = lambda name: (-math.inf, math.inf)

    @property
    def length(self) -> int:
        return self.total - self.start

    def progress(self, step: int) -> float:
        """Fraction of the training that is done."""
        return min(max((step - self.start) / self.length, 0.0), 1.0) if self.length > 0 else 1.0


class RuleContext(Stateful):
    """What a rule sees of a row."""

    state_names: ClassVar[tuple[str, ...]] = ("score", "step", "progress", "known", "_early", "_settled")

    def __init__(self, facts: RuleFacts) -> None:
        self.facts = facts
        self.score = Score(facts.threshold)
        self.step = 0
        self.progress = 0.0
        #: Numbers of this row
        self.row: Mapping[str, float] = {}
        #: The latest value of each metric
        self.known: dict[str, float] = {}
        #: What was NaN or infinite outside the row
        self.faults: list[NonFinite] = []
        # Set for each rule
        self.metric = ""
        self.value = math.nan
        self.memory: dict[str, Any] = {}
        self._early: dict[str, list[float]] = {}
        #: Metrics with enough early values
        self._settled: set[str] = set()

    def enter(self, step: int, row: Mapping[str, float]) -> None:
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
        """The first values of a metric, at most ten."""
        return self._early.get(name, [])

    def share_of_start(self, name: str) -> float:
        """The latest value of a metric divided by its first one; 1 if there is none."""
        early = self.early(name)
        return self.known[name] / early[0] if early and early[0] > 0 else 1.0

    @property
    def is_deterministic(self) -> bool:
        """Then updates are small, whatever the learning rate."""
        randomness = self.randomness
        return randomness is not None and randomness < _DETERMINISTIC

    @property
    def learns_slowly_on_purpose(self) -> bool:
        """A schedule has lowered the learning rate, so small updates are intended."""
        return self.share_of_start("train/learning_rate") < 0.2

    def is_doing_well(self, patience: float) -> bool:
        """Whether the task is solved, or the score has improved within ``patience`` of the training, or rises."""
        score = self.score
        has_improved = score.learned and self.progress - score.improved_at < patience
        return score.solved or has_improved or score.rises(patience)

    @property
    def randomness(self) -> float | None:
        """
        For discrete actions, the entropy as a fraction of its maximum. For continuous or masked actions, relative to
        the start, as a factor of the standard deviation.
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
    names = {cls.__name__.lower() for cls in type(model).__mro__}
    kinds = {"on_policy": isinstance(model, OnPolicyAlgorithm), "off_policy": isinstance(model, OffPolicyAlgorithm)}
    names |= {kind for kind, applies in kinds.items() if applies}
    if hasattr(model, "clip_range"):
        names.add("ppo")  # RecurrentPPO and MaskablePPO are no subclasses of PPO
    options = ("baseline", "n_epochs", "normalize_values", "value_loss", "normalize_advantage")
    return RuleFacts(
        algorithms=frozenset(names),
        n_envs=model.n_envs,
        start=model._num_timesteps_at_start,
        total=model._total_timesteps,
        max_entropy=_finite(hard_bounds("policy/entropy", model)[1]),
        action_dims=max(math.prod(model.action_space.shape or ()), 1),
        threshold=threshold,
        max_episode_steps=_finite(hard_bounds("rollout/ep_len_mean", model)[1]),
        sees_raw_observations=bool(unnormalized_keys(model)),
        options={name: getattr(model, name) for name in options if hasattr(model, name)},
        bounds_of=lambda name: hard_bounds(name, model),
    )


def _finite(bound: float) -> float | None:
    return bound if math.isfinite(bound) else None
