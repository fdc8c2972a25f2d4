"""Statistics over seeds, compared with SciPy's."""

import numpy as np
import pytest
import scipy.stats

from sb3_ext.metrics.statistics import STATISTICS, estimate, interquartile_mean, probability_of_improvement

SCORES = np.random.default_rng(7).normal(200, 50, 30)


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 8, 11, 30])
def test_the_interquartile_mean_is_that_of_scipy(n):
    assert interquartile_mean(SCORES[:n]) == pytest.approx(scipy.stats.trim_mean(SCORES[:n], 0.25), rel=1e-14)


@pytest.mark.parametrize("name", STATISTICS)
@pytest.mark.parametrize("n", [2, 5, 12])
def test_the_interval_is_that_of_scipys_bootstrap_from_the_same_draws(name, n):
    ours = estimate([SCORES[:n]], STATISTICS[name], resamples=500, seed=3)
    theirs = scipy.stats.bootstrap(
        [SCORES[:n]], STATISTICS[name], n_resamples=500, method="percentile", rng=np.random.default_rng(3)
    ).confidence_interval
    assert (ours.low, ours.high) == pytest.approx((theirs.low, theirs.high), rel=1e-12)


@pytest.mark.parametrize(("n", "m"), [(1, 1), (2, 5), (6, 6), (10, 3)])
def test_the_probability_of_improvement_is_mann_whitneys_u_per_pair(n, m):
    ours, theirs = np.round(SCORES[:n], -1), np.round(SCORES[-m:], -1)  # with ties
    u = scipy.stats.mannwhitneyu(ours, theirs).statistic
    assert probability_of_improvement([ours], [theirs]).value == pytest.approx(u / (n * m))


def test_the_interval_of_the_probability_of_improvement_is_that_of_scipys_bootstrap():
    ours, theirs = SCORES[:8], SCORES[8:15]

    def p(x, y, axis=-1):
        return np.heaviside(x[..., :, None] - y[..., None, :], 0.5).mean(axis=(-2, -1))

    scipys = scipy.stats.bootstrap(
        [ours, theirs], p, n_resamples=800, method="percentile", rng=np.random.default_rng(5)
    ).confidence_interval
    found = probability_of_improvement([ours], [theirs], resamples=800, seed=5)
    assert (found.low, found.high) == pytest.approx((scipys.low, scipys.high))


def test_the_better_of_two_wins_for_sure():
    assert probability_of_improvement([[3, 4, 5]], [[0, 1]])[:3] == (1.0, 1.0, 1.0)


def test_one_seed_has_a_value_and_no_interval():
    assert estimate([[3.0]]) == (3.0, None, None, 1)
    assert probability_of_improvement([[3.0]], [[1.0, 2.0]]) == (1.0, None, None, 1)


def test_a_seed_without_a_score_is_left_out():
    assert estimate([[1.0, np.nan, 3.0, np.inf]]) == estimate([[1.0, 3.0]])
    assert probability_of_improvement([[1.0, np.nan]], [[0.0]]).n_seeds == 1


def test_without_any_score_there_is_no_value():
    assert np.isnan(estimate([[np.nan]]).value) and estimate([[np.nan]]).n_seeds == 0
    assert np.isnan(probability_of_improvement([[np.nan]], [[1.0]]).value)


def test_seeds_are_drawn_within_each_environment():
    """Equal scores in each environment, so a resample that kept both environments can't differ."""
    assert estimate([[0.0] * 4, [100.0] * 4])[:3] == (50.0, 50.0, 50.0)


def test_environments_count_equally_in_the_probability_of_improvement():
    assert probability_of_improvement([[1.0] * 9, [0.0]], [[0.0] * 9, [1.0]]).value == 0.5


def test_a_curve_has_an_interval_at_each_point():
    curves = SCORES.reshape(10, 3)
    together = estimate([curves])
    for point in range(3):
        alone = estimate([curves[:, point]])
        assert [part[point] for part in together[:3]] == pytest.approx(alone[:3])


def test_the_same_seed_gives_the_same_interval():
    assert estimate([SCORES], seed=1) == estimate([SCORES], seed=1) != estimate([SCORES], seed=2)


def test_the_interval_contains_the_truth_as_often_as_it_says():
    """Of means of 30 normal scores: a percentile interval of 95 % covers a little less."""
    rng = np.random.default_rng(0)
    hits = []
    for trial in range(200):
        found = estimate([rng.normal(0, 1, 30)], np.mean, resamples=300, seed=trial)
        hits.append(found.low <= 0 <= found.high)
    assert 0.88 <= np.mean(hits) <= 0.99
