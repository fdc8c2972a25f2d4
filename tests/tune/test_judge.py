"""Scores of trainings and of configurations."""

import math

import pytest

from sb3_ext.tune.judge import score_curve, score_seeds, steps_to_threshold
from sb3_ext.tune.settings import StudySettings
from sb3_ext.zoo.trial_training import Curve, Point


def settings(**changes):
    known = {"algo": "ppo_ext", "env": "CartPole-v1", "source": {}, "start": {}, "space": {}, "timesteps": 100}
    return StudySettings(**{**known, **changes})


def curve(*scores, error=None, seconds=1.0):
    n = len(scores)
    points = tuple(Point(100 * (i + 1) // n, score, seconds * (i + 1)) for i, score in enumerate(scores))
    return Curve(points, 100, 1.0, error=error)


def test_the_area_is_the_mean_height_of_the_curve():
    assert score_curve(settings(), curve(0, 10)) == pytest.approx((50 * 0 + 50 * 5) / 100)


def test_a_lucky_last_evaluation_hardly_counts():
    lucky, steady = curve(*[0] * 9, 500), curve(*[100] * 10)
    assert score_curve(settings(), lucky) < score_curve(settings(), steady)
    assert score_curve(settings(objective="final"), curve(*[300] * 9, 0)) > 200


def test_a_diverged_training_counts_with_its_worst_score_for_what_is_missing():
    diverged = Curve((Point(20, 90.0, 1.0), Point(40, 100.0, 2.0)), 45, 2.0, error="NaN")
    # 90 until step 20, then up to 100 at 40, then its worst
    assert score_curve(settings(), diverged) == pytest.approx((20 * 90 + 20 * 95 + 60 * 90) / 100)


def test_a_training_without_evaluations_has_no_score():
    assert math.isnan(score_curve(settings(), Curve((), 0, 0.0, error="NaN")))


def test_fewer_steps_to_the_threshold_are_better_and_a_near_miss_beats_a_far_one():
    judged = settings(objective="steps", threshold=100.0)
    early, late = curve(0, 100, 100, 100), curve(0, 0, 0, 100)
    near, far = curve(0, 90, 90, 90), curve(0, 10, 10, 10)
    scores = [score_curve(judged, each) for each in (early, late, near, far)]
    assert scores == sorted(scores, reverse=True) and len(set(scores)) == 4
    assert scores[1] >= 0 > scores[2]


def test_one_evaluation_above_the_threshold_may_be_luck():
    assert steps_to_threshold(curve(100, 0, 100, 110), 100.0) == 75
    assert steps_to_threshold(curve(0, 0, 0, 100), 100.0) == 100
    assert steps_to_threshold(curve(100, 0, 0, 99), 100.0) is None


def test_a_lower_quantile_prefers_what_rarely_fails():
    risky, safe = [curve(0), curve(100), curve(100)], [curve(60), curve(60), curve(60)]
    assert score_seeds(settings(quantile=0.5), risky) > score_seeds(settings(quantile=0.5), safe)
    assert score_seeds(settings(), risky) < score_seeds(settings(), safe)


def test_by_the_clock_a_faster_configuration_with_the_same_curve_is_better():
    judged = settings(clock=True)
    fast, slow = curve(0, 50, 100, seconds=1.0), curve(0, 50, 100, seconds=3.0)
    assert score_curve(judged, fast, 10.0) > score_curve(judged, slow, 10.0)


def test_final_counts_the_last_third_only():
    late = curve(*[0] * 6, *[90] * 4)
    assert score_curve(settings(objective="final"), late) == pytest.approx(90, abs=2)
    assert score_curve(settings(), late) < 45
