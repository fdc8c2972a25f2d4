"""The score over a training: where it started, whether it improves, whether the task is solved."""

import math
import statistics
from bisect import bisect_left
from typing import ClassVar

from sb3_ext.common.stateful import Stateful

__all__ = ["Score"]

#: The first score is the median of at most this many rows in this fraction of the training, and of at least this many:
#: the first episodes to end are short ones, so a single row misleads
_FIRST_SCORES, _FIRST_PROGRESS, _FEWEST_FIRST_SCORES = 5, 0.05, 3
#: Minimum number of scores for a trend, and maximum number to keep
_TREND, _MAX_SCORES = 10, 512
#: A score this far on the way from the start to the threshold counts as solved (Taxi's threshold is out of reach),
#: until it falls below the second fraction, because a mean of 100 episodes fluctuates
_SOLVED, _STILL_SOLVED = 0.95, 0.85
#: A new best score counts if it is better by this fraction of the gain, and of the way to the threshold
_BETTER_BY_GAIN, _BETTER_BY_WAY = 0.02, 0.03
#: Fraction of the way to the threshold (without one, of the first score) after which something was learned
_LEARNED = 0.1


class _Course(Stateful):
    """The scores so far, thinned out evenly if there are many."""

    state_names: ClassVar[tuple[str, ...]] = ("_points", "_stride", "_skipped")

    def __init__(self) -> None:
        self._points: list[tuple[float, float]] = []
        self._stride, self._skipped = 1, 0

    def add(self, progress: float, score: float) -> None:
        self._skipped += 1
        if self._skipped < self._stride:
            return
        self._skipped = 0
        self._points.append((progress, score))
        if len(self._points) > _MAX_SCORES:
            self._points = self._points[::2]
            self._stride *= 2

    def rescale(self, factor: float) -> None:
        self._points = [(progress * factor, score) for progress, score in self._points]

    def since(self, share: float, at_least: int = 0) -> list[float]:
        """The scores in the last part of the training, at least ``at_least`` if there are as many."""
        points = self._points
        first = bisect_left(points, (points[-1][0] - share,)) if points else 0
        return [score for _, score in points[max(min(first, len(points) - at_least), 0) :]]


class Score(Stateful):
    """The mean episode reward over a training."""

    state_names: ClassVar[tuple[str, ...]] = (
        "_course",
        "_early",
        "_best",
        "_anchor",
        "latest",
        "first",
        "noise",
        "improved_at",
        "success_rate",
        "solved",
    )

    def __init__(self, threshold: float | None) -> None:
        self._threshold = threshold
        self._course = _Course()
        self._early: list[float] = []
        self._best = -math.inf
        #: What a score must be better than to count as an improvement
        self._anchor = -math.inf
        self.latest = math.nan
        #: About that of the untrained policy
        self.first = math.nan
        #: How much it fluctuates
        self.noise = 0.0
        #: Progress of the training when it was last clearly better than before
        self.improved_at = 0.0
        #: Fraction of successful episodes, if the environment reports it
        self.success_rate = 0.0
        self.solved = False

    def add(self, score: float, progress: float) -> None:
        self.latest = score
        self.solved = self._is_solved()
        self._course.add(progress, score)
        n_early = len(self._early)
        if n_early < _FEWEST_FIRST_SCORES or (n_early < _FIRST_SCORES and progress <= _FIRST_PROGRESS):
            self._early.append(score)
            self.first = self._best = self._anchor = statistics.median(self._early)
            self.noise = statistics.pstdev(self._early)
            self.improved_at = progress
            return
        # The first episode may be a lucky one, so only later scores can be the best
        step = max(_BETTER_BY_GAIN * (self._best - self.first), _BETTER_BY_WAY * self._way, 0.5 * self.noise)
        self._best = max(self._best, score)
        if score > self._anchor + step:
            self._anchor, self.improved_at = score, progress
        elif self.learned and score < (self._anchor + self.first) / 2:
            self._anchor = score  # learning it again counts too

    def rescale(self, factor: float) -> None:
        """Multiply the progress so far, after the length of the training was changed."""
        self.improved_at *= factor
        self._course.rescale(factor)

    def n_since(self, share: float) -> int:
        """Number of scores in the last part of the training."""
        return len(self._course.since(share))

    def rises(self, share: float) -> bool:
        """
        Whether the newer half of the scores in this part of the training has a mean above every earlier score. The part
        is larger if it has too few scores.

        A mean of 100 episodes fluctuates, so the latest scores are compared with all earlier ones, not with their
        neighbours. The first rows are left out, see :data:`_FEWEST_FIRST_SCORES`.
        """
        n_newer = len(self._course.since(share, at_least=2 * _TREND)) // 2
        scores = self._course.since(1.0)
        before, newer = scores[_FEWEST_FIRST_SCORES:-n_newer], scores[-n_newer:]
        return n_newer >= _TREND // 2 and bool(before) and statistics.fmean(newer) > max(before)

    @property
    def _way(self) -> float:
        """From the start to the threshold."""
        return 0.0 if self._threshold is None else max(self._threshold - self.first, 0.0)

    @property
    def best(self) -> float:
        return self._best

    @property
    def learned(self) -> bool:
        """Whether it was ever clearly better than at the start."""
        least = _LEARNED * (abs(self.first) if self._threshold is None else self._way)
        return self._best - self.first > max(3 * self.noise, least, 1e-9)

    def _is_solved(self) -> bool:
        if self.success_rate >= 0.99:
            return True
        if self._threshold is None:
            return False
        if not self._early:
            return self.latest >= self._threshold
        return self.latest >= self._threshold - (1 - (_STILL_SOLVED if self.solved else _SOLVED)) * self._way

    @property
    def way_made(self) -> float:
        """Fraction of the way from the start to the threshold; 0 without a threshold."""
        return (self.latest - self.first) / self._way if self._way > 0 else 0.0

    @property
    def lost(self) -> float:
        """Fraction of the gain that was lost again; 0 if nothing was learned."""
        return (self._best - self.latest) / (self._best - self.first) if self.learned else 0.0
