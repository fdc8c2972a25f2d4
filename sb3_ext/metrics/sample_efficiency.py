"""Sample efficiency: how much a training learns from its steps."""

import math
from typing import ClassVar

from sb3_ext.common.stateful import Stateful

__all__ = ["SampleEfficiency"]


class SampleEfficiency(Stateful):
    """
    Best score, area under the curve of scores, and steps until the threshold. A score is the raw reward of the
    latest episodes, ``rollout/ep_rew_mean``.
    """

    state_names: ClassVar[tuple[str, ...]] = (
        "_start",
        "_area",
        "_last_step",
        "_last_score",
        "_best",
        "_reached_at",
    )

    def __init__(self, start: int = 0, threshold: float | None = None) -> None:
        self._start, self._threshold = start, threshold
        self._area = 0.0
        self._last_step, self._last_score = start, math.nan
        self._best = -math.inf
        self._reached_at: int | None = None

    def add(self, step: int, score: float) -> dict[str, float]:
        """Add a score, in order of the steps. Returns the metrics."""
        if math.isfinite(score):
            # There is no score before the first episode ends: use the first one from the start
            before = score if math.isnan(self._last_score) else self._last_score
            self._area += (step - self._last_step) * (before + score) / 2
            self._last_step, self._last_score = step, score
            self._best = max(self._best, score)
            if self._reached_at is None and self._threshold is not None and score >= self._threshold:
                self._reached_at = step
        return self._metrics()

    def _metrics(self) -> dict[str, float]:
        if math.isnan(self._last_score):
            return {}
        steps = self._last_step - self._start
        metrics = {
            "rollout/score_best": self._best,
            "rollout/score_auc": self._area / steps if steps > 0 else self._last_score,
        }
        if self._reached_at is not None:
            metrics["rollout/steps_to_threshold"] = self._reached_at
        return metrics
