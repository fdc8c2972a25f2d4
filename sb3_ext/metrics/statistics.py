"""Statistics over seeds: interquartile mean, probability of improvement, and their bootstrap intervals.

They follow "Deep RL at the Edge of the Statistical Precipice" (Agarwal et al., 2021): a few seeds say little, so each
number comes with an interval, and an outlier must not decide. A *stratum* has the scores of one environment, one for
each seed. The bootstrap draws seeds within each stratum, so every resample has the same environments.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

__all__ = ["ENOUGH_SEEDS", "STATISTICS", "Estimate", "estimate", "interquartile_mean", "probability_of_improvement"]

#: With fewer seeds, a bootstrap interval is much too narrow
ENOUGH_SEEDS = 5
#: Scores of the seeds, along the first axis; more axes are points of a curve
Scores = Sequence[float] | np.ndarray
Statistic = Callable[..., Any]


class Estimate(NamedTuple):
    """
    A number, or an array with one for each point of a curve, and its interval.

    :param low: ``None`` if there is no interval: one seed says nothing about others
    :param n_seeds: the number of seeds that count; in the smallest stratum if there are several
    """

    value: Any
    low: Any
    high: Any
    n_seeds: int


def interquartile_mean(scores: Scores, axis: int = 0) -> Any:
    """Mean of the middle half: as robust as a median, and less noisy. As ``scipy.stats.trim_mean(scores, 0.25)``."""
    ordered = np.sort(np.asarray(scores, dtype=float), axis=axis)
    n = ordered.shape[axis]
    return np.take(ordered, range(n // 4, n - n // 4), axis=axis).mean(axis=axis)


#: What can be estimated, by name
STATISTICS: dict[str, Statistic] = {"iqm": interquartile_mean, "mean": np.mean, "median": np.median}


def estimate(
    strata: Sequence[Scores],
    statistic: Statistic = interquartile_mean,
    *,
    confidence: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
) -> Estimate:
    """
    Seeds without a finite score are left out; without any, the value is NaN.

    :param strata: scores of the seeds in each environment
    :param statistic: takes scores and ``axis``, see :data:`STATISTICS`
    """
    kept = [_finite(scores) for scores in strata]
    pooled = np.concatenate(kept)
    n_seeds = min(map(len, kept))
    if not len(pooled):
        return Estimate(np.nan, None, None, 0)
    value = statistic(pooled, axis=0)
    if n_seeds < 2:
        return Estimate(value, None, None, n_seeds)
    rng = np.random.default_rng(seed)
    drawn = np.concatenate([scores[_draws(rng, len(scores), resamples)] for scores in kept], axis=1)
    return Estimate(value, *_interval(statistic(drawn, axis=1), confidence), n_seeds)


def probability_of_improvement(
    ours: Sequence[Scores],
    theirs: Sequence[Scores],
    *,
    confidence: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
) -> Estimate:
    """
    The probability that a training of ours scores higher than one of theirs, where a tie counts half: the Mann-Whitney
    U statistic over the number of pairs, averaged over the strata. Numbers of seeds may differ.

    :param ours: scores of the seeds in each environment
    :param theirs: in the same environments
    """
    pairs = [(_finite(mine), _finite(other)) for mine, other in zip(ours, theirs, strict=True)]
    n_seeds = min(len(scores) for pair in pairs for scores in pair)
    if not n_seeds:
        return Estimate(np.nan, None, None, 0)
    # For each pair of seeds: 1 if ours is better, 0.5 for a tie
    wins = [np.heaviside(mine[:, None] - other, 0.5) for mine, other in pairs]
    value = float(np.mean([table.mean() for table in wins]))
    if n_seeds < 2:
        return Estimate(value, None, None, n_seeds)
    rng = np.random.default_rng(seed)
    drawn = []
    for table in wins:
        rows, columns = (_draws(rng, n, resamples) for n in table.shape)
        drawn.append(table[rows[:, :, None], columns[:, None, :]].mean(axis=(1, 2)))
    return Estimate(value, *_interval(np.mean(drawn, axis=0), confidence), n_seeds)


def _finite(scores: Scores) -> np.ndarray:
    array = np.asarray(scores, dtype=float)
    return array[np.isfinite(array).reshape(len(array), -1).all(axis=1)]


def _draws(rng: np.random.Generator, n: int, resamples: int) -> np.ndarray:
    """Places of the drawn seeds, a row for each resample."""
    return rng.integers(0, n, (resamples, n))


def _interval(values: np.ndarray, confidence: float) -> tuple[Any, Any]:
    low, high = np.quantile(values, [(1 - confidence) / 2, (1 + confidence) / 2], axis=0)
    return low, high
