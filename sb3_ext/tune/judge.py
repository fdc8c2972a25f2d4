"""Scores: of one training, robust against a lucky evaluation, and of a configuration, over its seeds."""

from collections.abc import Sequence

import numpy as np

from sb3_ext.tune.settings import StudySettings
from sb3_ext.zoo.trial_training import Curve

__all__ = ["score_curve", "score_seeds", "steps_to_threshold"]


def score_seeds(settings: StudySettings, curves: Sequence[Curve], end: float | None = None) -> float:
    """
    Score of a configuration; higher is better.

    :param end: with ``clock``, the seconds that each training has
    """
    return float(np.quantile([score_curve(settings, curve, end) for curve in curves], settings.quantile))


def score_curve(settings: StudySettings, curve: Curve, end: float | None = None) -> float:
    """What a training that diverged has no evaluations for counts as its worst one. Without any, it is NaN."""
    if not curve.points:
        return float("nan")
    xs = [point.seconds if settings.clock else point.step for point in curve.points]
    ys = [point.score for point in curve.points]
    last = float((end or xs[-1]) if settings.clock else settings.timesteps)
    if curve.error is not None:
        xs, ys = [*xs, float(np.nextafter(xs[-1], np.inf))], [*ys, min(ys)]
    if settings.objective == "steps":
        return _early_arrival(settings, xs, ys, last)
    if settings.objective == "final":
        return _mean(xs, ys, last * 2 / 3, last)
    return _mean(xs, ys, 0, last)


def steps_to_threshold(curve: Curve, threshold: float) -> int | None:
    """
    The step of the first evaluation from which two in a row reach it in the mean; the last one may do so alone. One
    evaluation has too few episodes to trust.
    """
    steps, scores = [point.step for point in curve.points], [point.score for point in curve.points]
    found = _first_above(scores, threshold)
    return None if found is None else steps[found]


def _first_above(scores: Sequence[float], threshold: float) -> int | None:
    pairs = zip(scores, [*scores[1:], scores[-1]], strict=True)
    return next((i for i, pair in enumerate(pairs) if pair[0] >= threshold and np.mean(pair) >= threshold), None)


def _early_arrival(settings: StudySettings, xs: Sequence[float], ys: Sequence[float], last: float) -> float:
    """From 0 (at the end) to 1 (at once); below 0 if the threshold is never reached, by how far it is."""
    assert settings.threshold is not None
    found = _first_above(ys, settings.threshold)
    if found is not None:
        return max(0.0, 1 - xs[found] / last)
    return (max(ys) - settings.threshold) / max(1.0, abs(settings.threshold))


def _mean(xs: Sequence[float], ys: Sequence[float], low: float, high: float) -> float:
    """Mean height of the curve between two places. It is flat before its first point and after its last."""
    inside = [x for x in xs if low < x < high]
    places = np.array([low, *inside, high])
    heights = np.interp(places, xs, ys)
    return float(np.trapezoid(heights, places) / (high - low))
