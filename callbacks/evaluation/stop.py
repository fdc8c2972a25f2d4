"""When training can stop: at a threshold of the raw reward, or on a plateau."""

import math
import warnings
from collections import deque
from collections.abc import Mapping
from statistics import fmean
from typing import Any, ClassVar

from sb3_ext.callbacks.evaluation.options import EvaluationOptions
from sb3_ext.common.stateful import Stateful

__all__ = ["StopCondition"]

#: Training episodes in a score, as in SB3's ``rollout/ep_rew_mean``
_ROLLOUT_WINDOW = 100
#: Training episodes in the first score
_FIRST_EPISODES = 10


class StopCondition(Stateful):
    """
    Says when evaluation starts and when training can stop.

    :param threshold: score at which the environment counts as solved, if it is known
    :raises ValueError: when a threshold is needed and there is none
    """

    state_names: ClassVar[tuple[str, ...]] = (
        "has_begun",
        "_first",
        "_rollouts",
        "_evaluations",
        "_best",
        "_evaluations_since_best",
    )

    def __init__(self, options: EvaluationOptions, threshold: float | None) -> None:
        self.threshold = threshold
        if options.needs_threshold and self.threshold is None:
            option = "start_at" if options.start_at is not None else f"stop: {options.stop}"
            raise ValueError(
                f"Evaluation: {option} needs a threshold, and the environment's spec has none: set one, such as "
                "ext: {threshold: 200}."
            )
        self._options = options
        #: Whether the agent is good enough to be evaluated
        self.has_begun = options.start_at is None
        #: Why training can stop; a headline for it, and what to change if it was too early
        self.reached: str | None = None
        self.headline = "Solved"
        self.advice: str | None = None
        if options.stop == "plateau":
            self.headline = "No more improvement"
            self.advice = (
                "If it could still improve, raise `patience` or lower `min_improvement` of `ext: {evaluation: …}`."
            )
        self._first: float | None = None
        self._rollouts: deque[float] = deque(maxlen=_ROLLOUT_WINDOW)
        self._evaluations: deque[float] = deque(maxlen=options.window)
        self._best = -math.inf
        self._evaluations_since_best = 0

    @property
    def watches(self) -> bool:
        """Whether it needs the training episodes."""
        return not self.has_begun or self._options.stop == "rollout"

    def warn_if_blind(self) -> None:
        """Call this at the end of training."""
        if self.watches and not self._rollouts:
            warnings.warn(
                "No training episode had a score, which start_at and stop: rollout need: are the training environments "
                "in a Monitor?",
                stacklevel=2,
            )

    def see_step(self, training: Mapping[str, Any]) -> None:
        dones = training.get("dones")
        if dones is None or not dones.any():
            return
        for info in training["infos"]:
            if "episode" in info:
                self._rollouts.append(float(info["episode"]["r"]))
        if self._first is None and len(self._rollouts) >= _FIRST_EPISODES:
            self._first = fmean(self._rollouts)
        if not self.has_begun:
            self.has_begun = self._has_passed(self._options.start_at or 0.0)
        if self._options.stop == "rollout":
            self._check(self._rollouts, f"the last {_ROLLOUT_WINDOW} training episodes")

    def see_evaluation(self, score: float, progress: float) -> None:
        """``progress`` is the fraction of the training that is over."""
        self._evaluations.append(score)
        if self._options.stop == "plateau" and len(self._evaluations) == self._options.window:
            self._check_plateau(progress)
        if self._options.stop == "eval":
            self._check(self._evaluations, f"the last {self._options.window} evaluations")

    def _has_passed(self, share: float) -> bool:
        """Of the way from the first score to the threshold. With negative scores, a share of it would be useless."""
        first, threshold = self._first, self.threshold
        if first is None or threshold is None:
            return False
        return fmean(self._rollouts) >= first + share * (threshold - first)

    def _check(self, scores: deque[float], what: str) -> None:
        is_full = len(scores) == scores.maxlen
        if self.threshold is not None and is_full and fmean(scores) >= self.threshold:
            self.reached = f"the mean of {what} is {fmean(scores):.4g}, and the threshold {self.threshold:g}"

    def _check_plateau(self, progress: float) -> None:
        options, mean = self._options, fmean(self._evaluations)
        if mean > self._best + options.min_improvement:
            self._best, self._evaluations_since_best = mean, 0
            return
        self._evaluations_since_best += 1
        if self._evaluations_since_best >= options.patience and progress >= options.stop_after:
            by = f" by more than {options.min_improvement:g}" if options.min_improvement else ""
            self.reached = (
                f"the mean of {options.window} evaluations has not exceeded {self._best:.4g}{by} for "
                f"{self._evaluations_since_best} of them"
            )
