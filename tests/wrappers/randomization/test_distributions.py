"""Distributions: what is drawn, how they are written, and what is not one."""

from __future__ import annotations

import math

import numpy as np
import pytest
import yaml

from sb3_ext.wrappers.randomization.distributions import Range, parse_distribution

WRITTEN = [
    "9.8",
    "{uniform: [-12, -4]}",
    "{log_uniform: [0.1, 10]}",
    "{normal: [9.8, 0.5]}",
    "{normal: [9.8, 0.5], clip: [8, 12]}",
    "{choice: [1, 2.5, euler, true]}",
    "{choice: [1, 2], weights: [3, 1]}",
    "{schedule: {from: -10, to: {uniform: [-12, -4]}}}",
    "{schedule: {from: {normal: [1, 0.1]}, to: {normal: [1, 0.5]}, over: [0.2, 0.8]}}",
]


def parse(text):
    return parse_distribution("gravity", yaml.safe_load(text))


def samples(text, n=4000, progress=1.0):
    distribution = parse(text).at(progress)
    generator = np.random.default_rng(0)
    return [distribution.sample(generator) for _ in range(n)]


@pytest.mark.parametrize("text", WRITTEN)
def test_the_repr_is_what_was_written(text):
    assert repr(parse(text)) == text
    assert parse(repr(parse(text))) == parse(text)


def test_numbers_keep_their_digits_in_the_repr():
    assert repr(parse("{uniform: [0.00251234567, 1e4]}")) == "{uniform: [0.00251234567, 10000]}"


def test_a_uniform_one_has_its_bounds_and_its_mean():
    drawn = samples("{uniform: [-12, -4]}")
    assert -12 <= min(drawn) < -11.9 and -4.1 < max(drawn) <= -4
    assert np.mean(drawn) == pytest.approx(-8, abs=0.2)
    assert np.std(drawn) == pytest.approx(8 / math.sqrt(12), rel=0.05)


def test_a_log_uniform_one_has_half_of_its_samples_below_the_geometric_mean():
    drawn = samples("{log_uniform: [0.1, 10]}")
    assert 0.1 <= min(drawn) and max(drawn) <= 10
    assert np.mean(np.array(drawn) < 1) == pytest.approx(0.5, abs=0.03)


def test_a_normal_one_has_its_mean_and_its_std():
    drawn = samples("{normal: [9.8, 0.5]}")
    assert np.mean(drawn) == pytest.approx(9.8, abs=0.03)
    assert np.std(drawn) == pytest.approx(0.5, rel=0.05)


def test_a_clipped_normal_one_stays_inside():
    drawn = samples("{normal: [9.8, 0.5], clip: [9, 10]}")
    assert min(drawn) == 9 and max(drawn) == 10


def test_a_choice_follows_its_weights():
    drawn = samples("{choice: [light, heavy], weights: [3, 1]}")
    assert set(drawn) == {"light", "heavy"}
    assert np.mean([value == "light" for value in drawn]) == pytest.approx(0.75, abs=0.03)


def test_a_choice_gives_its_values_as_they_are():
    assert {type(value) for value in samples("{choice: [1, 2.5, euler, true]}")} == {int, float, str, bool}


@pytest.mark.parametrize(
    ("text", "progress", "expected"),
    [
        ("{schedule: {from: 1, to: 3}}", 0.5, "2"),
        ("{schedule: {from: -10, to: {uniform: [-12, -4]}}}", 0.0, "{uniform: [-10, -10]}"),
        ("{schedule: {from: -10, to: {uniform: [-12, -4]}}}", 0.5, "{uniform: [-11, -7]}"),
        ("{schedule: {from: -10, to: {uniform: [-12, -4]}}}", 1.0, "{uniform: [-12, -4]}"),
        ("{schedule: {from: {uniform: [0, 4]}, to: 2}}", 0.5, "{uniform: [1, 3]}"),
        ("{schedule: {from: 1, to: {log_uniform: [0.5, 2]}}}", 0.5, "{log_uniform: [0.75, 1.5]}"),
        ("{schedule: {from: 1, to: {normal: [2, 1], clip: [0, 4]}}}", 0.5, "{normal: [1.5, 0.5], clip: [0, 4]}"),
        ("{schedule: {from: 1, to: 3, over: [0.2, 0.6]}}", 0.1, "1"),
        ("{schedule: {from: 1, to: 3, over: [0.2, 0.6]}}", 0.4, "2"),
        ("{schedule: {from: 1, to: 3, over: [0.2, 0.6]}}", 0.7, "3"),
    ],
)
def test_a_schedule_changes_linearly_over_training(text, progress, expected):
    assert repr(parse(text).at(progress)) == expected


def test_without_progress_a_schedule_is_drawn_from_its_end():
    drawn = samples("{schedule: {from: -10, to: {uniform: [-12, -4]}}}")
    assert min(drawn) < -11.9 and max(drawn) > -4.1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{unifrom: [1, 2]}", "did you mean 'uniform'"),
        ("{}", "one kind of distribution"),
        ("{uniform: [1, 2], normal: [1, 2]}", "one kind of distribution"),
        ("{uniform: [1, 2], clip: [1, 2]}", "uniform has no option 'clip'"),
        ("{normal: [1, 2], clp: [1, 2]}", "did you mean 'clip'"),
        ("{uniform: [2, 1]}", "lower number first"),
        ("{uniform: [1]}", r"must be two numbers \[low, high\]"),
        ("{uniform: 1}", r"must be two numbers \[low, high\]"),
        ("{uniform: [low, high]}", "must be a number"),
        ("{uniform: [1, .inf]}", "finite number"),
        ("{log_uniform: [0, 1]}", "above 0"),
        ("{normal: [1, -1]}", "must not be negative"),
        ("{normal: [1, 1], clip: [2, 1]}", "clip: .* lower number first"),
        ("{choice: []}", "must be a list"),
        ("{choice: euler}", "must be a list"),
        ("{choice: [[1, 2]]}", "must be a list"),
        ("{choice: [1, 2], weights: [1]}", "one number for each"),
        ("{choice: [1, 2], weights: [0, 0]}", "nor all 0"),
        ("{choice: [1, 2], weights: [-1, 2]}", "must not be negative"),
        ("{schedule: {from: 1}}", "must be {from: ..., to: ...}"),
        ("{schedule: {from: 1, to: 2, ovr: [0, 1]}}", "did you mean 'over'"),
        ("{schedule: {from: 1, to: 2, over: [0.5, 0.5]}}", "shares of training"),
        ("{schedule: {from: 1, to: 2, over: [0, 20]}}", "shares of training"),
        ("{schedule: {from: {uniform: [1, 2]}, to: {normal: [1, 2]}}}", "can't go from"),
        ("{schedule: {from: 1, to: {choice: [1, 2]}}}", "can't go from"),
        ("{schedule: {from: {schedule: {from: 1, to: 2}}, to: 3}}", "can't go from"),
        ("{schedule: {from: 0, to: {log_uniform: [1, 2]}}}", "has no logarithm"),
        ("{schedule: {from: 0, to: {normal: [2, 1], clip: [1, 3]}}}", "outside of"),
        ("{schedule: {from: {normal: [1, 1]}, to: {normal: [2, 1], clip: [1, 3]}}}", "clip for both"),
        ("true", "is not a distribution"),
        ("[1, 2]", "is not a distribution"),
        ("heavy", "must be a number"),
    ],
)
def test_what_is_not_a_distribution_gets_an_error_that_says_why(text, message):
    with pytest.raises(ValueError, match=message) as error:
        parse(text)
    assert "gravity" in str(error.value)


def test_numbers_that_yaml_leaves_as_texts_are_numbers():
    assert samples("{uniform: [1e-4, 1e-4]}", n=1) == [1e-4]
    assert samples("1e-4", n=1) == [1e-4]


@pytest.mark.parametrize(
    "text", ["-11", "{uniform: [-12, -4]}", "{normal: [-9, 1], clip: [-12, 0]}", "{choice: [-1, -2]}"]
)
def test_what_stays_in_the_range_is_fine(text):
    parse(text).check("gravity", Range(-12, 0))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1", "gravity can't be 1: it must be at least -12 and at most 0"),
        ("{uniform: [-13, -4]}", "can't be -13"),
        ("{uniform: [-10, 0.5]}", "can't be 0.5"),
        ("{normal: [-9, 1]}", "Add clip"),
        ("{choice: [-1, euler]}", "can't be euler"),
        ("{choice: [true]}", "can't be true"),
        ("{schedule: {from: -13, to: -4}}", "can't be -13"),
        ("{schedule: {from: -10, to: {normal: [-9, 1]}}}", "Add clip"),
    ],
)
def test_what_may_leave_the_range_gets_an_error(text, message):
    with pytest.raises(ValueError, match=message):
        parse(text).check("gravity", Range(-12, 0))


def test_a_range_may_be_without_its_lowest_value():
    Range(0, above=True).check("mass", 0.1, 5)
    with pytest.raises(ValueError, match="must be above 0"):
        Range(0, above=True).check("mass", 0, 5)
