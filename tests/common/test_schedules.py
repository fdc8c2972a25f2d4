"""Schedules: their values, how they are written, and how an algorithm follows them."""

import math
import pickle

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from rl_zoo3.utils import SimpleLinearSchedule
from stable_baselines3.common.env_util import make_vec_env

from sb3_ext import REINFORCE, A2CExt, PPOExt
from sb3_ext.common.schedules import Constant, Curve, Points, parse_schedule

values = st.floats(1e-6, 10)
fractions = st.floats(0, 1)
totals = st.integers(1, 10**8)
shapes = st.sampled_from(["linear", "cosine", "exponential", "step", "constant"])


@given(values, values, shapes, totals, fractions, fractions)
def test_a_curve_is_monotone_and_stays_between_its_ends(start, end, shape, total, one, other):
    curve = parse_schedule("x", {"start": start, "end": end, "shape": shape})
    early, late = sorted([one, other])
    first, second = curve.at(early * total, total), curve.at(late * total, total)
    tolerance = 1e-9 * max(start, end)
    low, high = min(start, end) - tolerance, max(start, end) + tolerance
    assert low <= first <= high and low <= second <= high
    assert first >= second - tolerance if start >= end else first <= second + tolerance


@given(values, values, st.sampled_from(["linear", "cosine", "exponential", "step"]), totals, fractions, fractions)
def test_a_curve_changes_only_between_from_and_to(start, end, shape, total, one, other):
    begin, finish = sorted([one, other])
    assume(finish - begin > 1e-6)
    curve = parse_schedule("x", {"start": start, "end": end, "shape": shape, "from": begin, "to": finish})
    assert curve.at(begin * total * 0.999, total) == pytest.approx(start)
    assert curve.at(finish * total * 1.001 + 1, total) == end
    assert curve.at(3 * total, total) == end, "also when training goes on for longer than was asked"


@given(values, values, values, totals, fractions)
def test_a_minimum_is_a_minimum(start, end, minimum, total, position):
    curve = parse_schedule("x", {"start": start, "end": end, "min": minimum})
    assert curve.at(position * total, total) >= minimum


@given(
    st.lists(st.tuples(fractions, values), min_size=1, max_size=6, unique_by=lambda point: point[0]), totals, fractions
)
def test_points_are_met_and_nothing_leaves_their_range(points, total, position):
    points = sorted(points)
    schedule = parse_schedule("x", [list(point) for point in points])
    low, high = min(value for _, value in points), max(value for _, value in points)
    assert low - 1e-9 <= schedule.at(position * total, total) <= high + 1e-9
    assert schedule.at(points[0][0] * total, total) == pytest.approx(points[0][1], rel=1e-6)
    assert schedule.at(points[-1][0] * total * 1.0001, total) == points[-1][1]


@given(values, fractions)
def test_lin_is_what_rl_zoo_makes_of_it(start, progress_remaining):
    assert parse_schedule("x", f"lin_{start!r}")(progress_remaining) == SimpleLinearSchedule(start)(progress_remaining)


@pytest.mark.parametrize("written", ["lin_0.5", {"start": 0.5}, [[0, 0.5], [1, 0.0]]])
def test_a_training_that_goes_on_past_its_end_stays_at_the_last_value(written):
    schedule = parse_schedule("x", written)
    schedule.bind(100)
    assert (schedule(0.0), schedule(-0.2), schedule.at(150, 100)) == (0.0, 0.0, 0.0)


def test_warmup_rises_from_zero():
    schedule = parse_schedule("x", {"start": 1.0, "end": 0.0, "warmup": 100})
    assert [schedule.at(step, 1000) for step in (0, 50)] == [0.0, 0.5]
    assert schedule.at(100, 1000) == pytest.approx(0.9)


def test_what_a_schedule_says_of_itself():
    assert repr(parse_schedule("x", {"start": 1, "end": 0, "from": 0.1, "to": 5000, "min": 0.1, "warmup": 100})) == (
        "{start: 1, end: 0, shape: linear, from: 0.1, to: 5000, warmup: 100, min: 0.1}"
    )
    assert repr(parse_schedule("x", {"start": 1, "end": 2})) == "{start: 1, end: 2, shape: linear}"


def test_one_is_the_end_of_training_and_two_the_second_timestep():
    assert parse_schedule("x", {"start": 1.0, "to": 1}).at(500, 1000) == 0.5
    assert parse_schedule("x", {"start": 1.0, "to": 2}).at(1, 1000) == 0.5


def test_a_schedule_is_a_fraction_of_training_whatever_its_length():
    schedule = parse_schedule("x", {"start": 1.0, "end": 0.0, "from": 0.5, "warmup": 0.25})
    for total in (1, 100, 12345):
        schedule.bind(total)
        assert [schedule(remaining) for remaining in (1.0, 0.875, 0.75, 0.5, 0.25, 0.0)] == pytest.approx(
            [0.0, 0.5, 1.0, 1.0, 0.5, 0.0]
        )
    assert parse_schedule("x", {"start": 1.0, "end": 0.0})(0.25) == 0.25, "before its length is known"


def test_the_shapes_are_told_apart_in_the_middle():
    def middle(shape, share):
        return parse_schedule("x", {"start": 4.0, "end": 1.0, "shape": shape}).at(share * 100, 100)

    assert [middle(shape, 0.25) for shape in ("linear", "cosine", "exponential", "step", "constant")] == pytest.approx(
        [3.25, 4 - 3 * (1 - math.cos(math.pi / 4)) / 2, 4 * 0.25**0.25, 4.0, 4.0]
    )
    assert [middle(shape, 1.0) for shape in ("linear", "cosine", "exponential", "step", "constant")] == [1, 1, 1, 1, 4]


def test_points_are_joined_by_straight_lines():
    schedule = parse_schedule("x", [[0.2, 1.0], [0.4, 3.0], [1.0, 0.0]])
    expected = [1.0, 1.0, 2.0, 3.0, 1.5, 0.0, 0.0]
    assert [schedule.at(step, 100) for step in (0, 20, 30, 40, 70, 100, 120)] == pytest.approx(expected)


def test_a_warmup_alone_leads_to_a_constant():
    schedule = parse_schedule("x", {"start": 2.0, "warmup": 0.5})
    assert [schedule.at(step, 100) for step in (25, 50, 75, 100)] == [1.0, 2.0, 2.0, 2.0]


def test_a_minimum_holds_in_the_warmup_too():
    assert parse_schedule("x", {"start": 1.0, "end": 0.5, "min": 0.25, "warmup": 100}).at(0, 1000) == 0.25


def test_positions_above_one_are_timesteps():
    schedule = parse_schedule("x", {"start": 1.0, "end": 0.0, "from": 1000, "to": 3000})
    assert [schedule.at(step, 10_000) for step in (500, 1000, 2000, 3000)] == [1.0, 1.0, 0.5, 0.0]
    schedule.bind(10_000)
    assert schedule(0.8) == pytest.approx(0.5)


def test_exponential_is_a_straight_line_on_a_log_scale():
    schedule = parse_schedule("x", {"start": 1.0, "end": 1e-4, "shape": "exponential"})
    assert math.log10(schedule.at(50, 100)) == pytest.approx(-2)


@pytest.mark.parametrize("written", [1e-3, 3, "1e-4", "0.5"])
def test_a_number_is_a_number_also_where_yaml_made_it_a_string(written):
    assert parse_schedule("x", written) == Constant(float(written))


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("lin0.001", "learning_rate='lin0.001' is not a schedule: write a number, 'lin_0.001'"),
        ("linear_0.001", "Did you mean 'lin_"),
        ("abc", "is not a schedule"),
        (True, "is not a schedule"),
        ({"strat": 1}, "learning_rate has no key 'strat': did you mean 'start'"),
        ({"end": 0}, "needs 'start'"),
        ({"start": 1, "shape": "cosin"}, "did you mean 'cosine'"),
        ({"start": 1, "from": 0.8, "to": 0.2}, "ends (to=0.2) before it starts"),
        ({"start": 1, "from": 2000, "to": 1000}, "ends (to=1000) before it starts"),
        ({"start": 1, "end": 0, "shape": "exponential"}, "can't go exponentially from 1 to 0"),
        ({"start": 1, "from": -0.1}, "must not be negative"),
        ({"start": 1, "warmup": -5}, "warmup=-5 must not be negative"),
        ({"start": 1, "to": 0}, "ends (to=0) before it starts"),
        ({"start": 1, "from": 0.5, "to": 0.5}, "ends (to=0.5) before it starts"),
        ({"start": 1, "from": "x"}, "learning_rate's from='x' must be a number"),
        ({"start": -1, "end": 1, "shape": "exponential"}, "can't go exponentially"),
        ({"start": float("inf")}, "must be a finite number"),
        (None, "learning_rate=None is not a schedule"),
        (object(), "is not a schedule"),
        ([[0.5, 1], [0.5, 2]], "must be in order"),
        ([[2, 1], [0, 2]], "must be in order"),
        ([[-0.5, 1], [0.5, 2]], "before training starts"),
        ([[0, 1, 2]], "must be points"),
        ([[0, 1], [0.5]], "must be points"),
        ([[0.5, 1], [0.2, 2]], "must be in order"),
        ([], "must be points"),
        (float("nan"), "must be a finite number"),
    ],
)
def test_what_is_not_a_schedule_gets_an_error_that_says_why(written, message):
    with pytest.raises(ValueError) as error:
        parse_schedule("learning_rate", written)
    assert message in str(error.value)


@pytest.mark.parametrize("written", ["abc", "exp_0.5", "low", "lin0.5"])
def test_only_what_looks_like_lin_is_taken_for_it(written):
    with pytest.raises(ValueError) as error:
        parse_schedule("x", written)
    assert "Did you mean" not in str(error.value)


def test_an_end_before_the_start_is_found_when_the_length_is_known():
    schedule = parse_schedule("x", {"start": 1, "from": 5000, "to": 0.5})
    schedule.bind(100_000)
    with pytest.raises(ValueError, match="ends before it starts"):
        schedule.bind(1000)


@pytest.mark.parametrize(
    "written",
    [
        "lin_0.001",
        {"start": 1.0, "end": 0.5, "shape": "cosine", "from": 0.1},
        {"start": 1.0, "to": 5000, "min": 0.1, "warmup": 100},
        [[0, 1], [1, 2]],
    ],
)
def test_it_reads_like_the_config_and_survives_pickling(written):
    import yaml

    schedule = parse_schedule("x", written)
    assert parse_schedule("x", yaml.safe_load(repr(schedule))) == schedule
    assert pickle.loads(pickle.dumps(schedule)) == schedule


ALL = {
    PPOExt: {"n_steps": 16, "batch_size": 16, "n_epochs": 1, "target_kl": {"start": 0.5, "end": 0.1},
             "gae_lambda": {"start": 0.9, "end": 0.8}, "clip_range": [[0, 0.4], [1, 0.2]], "clip_range_vf": "lin_0.2"},
    A2CExt: {"n_steps": 8, "gae_lambda": {"start": 0.9, "end": 0.8}},
    REINFORCE: {"n_steps": 16},
}  # fmt: skip
COMMON = {
    "learning_rate": {"start": 1e-3, "end": 1e-4, "shape": "exponential"},
    "ent_coef": "lin_0.1",
    "vf_coef": {"start": 0.5, "end": 0.25},
    "max_grad_norm": [[0, 1.0], [1, 0.5]],
    "gamma": {"start": 0.9, "end": 0.99},
}


def make(algorithm, **kwargs):
    env = make_vec_env("CartPole-v1", 2, seed=0)
    return algorithm("MlpPolicy", env, seed=0, device="cpu", **{**ALL[algorithm], **COMMON, **kwargs})


@pytest.mark.parametrize("algorithm", ALL)
def test_every_number_may_be_a_schedule_and_ends_where_it_should(algorithm):
    model = make(algorithm).learn(320, log_interval=None)
    assert model._current_progress_remaining == 0
    logged = model.logger.name_to_value
    assert (model.ent_coef, model.vf_coef, model.max_grad_norm, model.gamma) == pytest.approx((0.0, 0.25, 0.5, 0.99))
    buffer = model.rollout_buffer
    assert (buffer.gamma, buffer.gae_lambda) == pytest.approx((0.99, 1.0 if algorithm is REINFORCE else 0.8))
    assert model.policy.optimizer.param_groups[0]["lr"] == pytest.approx(1e-4)
    for name in {**ALL[algorithm], **COMMON}:
        if name not in ("n_steps", "batch_size", "n_epochs"):
            assert f"schedule/{name}" in logged, name


@pytest.mark.parametrize("algorithm", ALL)
def test_schedules_are_saved_and_go_on_from_the_timestep(algorithm, tmp_path):
    whole = make(algorithm).learn(320)
    part = make(algorithm)
    part.learn(320, callback=lambda *_: part.num_timesteps < 160)
    assert 0.0 < part.ent_coef < 0.1
    part.save(tmp_path / "model")
    loaded = algorithm.load(tmp_path / "model", env=make_vec_env("CartPole-v1", 2, seed=0), device="cpu")
    assert loaded.schedules == part.schedules
    loaded.learn(320 - loaded.num_timesteps, reset_num_timesteps=False)
    for name in loaded.schedules:
        assert getattr(loaded, name) == pytest.approx(getattr(whole, name)), name


def test_a_number_given_to_load_takes_the_place_of_a_saved_schedule(tmp_path):
    make(PPOExt).learn(64).save(tmp_path / "model")
    loaded = PPOExt.load(tmp_path / "model", ent_coef=0.3)
    assert loaded.ent_coef == 0.3
    assert "ent_coef" not in loaded.schedules and "vf_coef" in loaded.schedules


def test_a_number_given_to_load_does_so_even_where_it_is_the_schedule_s_value(tmp_path):
    model = make(PPOExt)
    model.learn(320, callback=lambda *_: model.num_timesteps < 160)
    model.save(tmp_path / "model")
    assert "ent_coef" in model.schedules
    assert "ent_coef" not in PPOExt.load(tmp_path / "model", ent_coef=model.ent_coef).schedules


@pytest.mark.parametrize(("algorithm", "name"), [(PPOExt, "target_kl"), (REINFORCE, "vf_coef")])
def test_a_schedule_may_end_at_zero_and_the_model_is_loaded_all_the_same(algorithm, name, tmp_path):
    make(algorithm, **{name: "lin_0.5"}).learn(320).save(tmp_path / "model")
    assert getattr(algorithm.load(tmp_path / "model"), name) == 0


def test_a_value_that_is_set_on_the_model_takes_the_place_of_its_schedule():
    model = make(PPOExt).learn(64)
    model.ent_coef, model.vf_coef = 0.3, {"start": 1.0, "end": 0.5}
    model.learn(64)
    assert (model.ent_coef, model.vf_coef) == pytest.approx((0.3, 0.5))
    assert "ent_coef" not in model.schedules


def test_a_callback_may_set_a_scheduled_value():
    model = make(PPOExt)

    def set_entropy(*_):
        if model.num_timesteps == 160:
            model.ent_coef = 0.7
        return True

    model.learn(320, callback=set_entropy)
    assert model.ent_coef == 0.7


def test_a_bad_schedule_is_named_by_its_parameter():
    with pytest.raises(ValueError, match="ent_coef has no key 'strat': did you mean 'start'"):
        make(PPOExt, ent_coef={"strat": 1})


def test_fractions_and_timesteps_are_compared_when_the_length_is_known():
    assert parse_schedule("x", [[0.9, 1.0], [2.0, 2.0]]) == Points([(0.9, 1.0), (2.0, 2.0)])
    assert parse_schedule("x", {"start": 1, "from": 1, "to": 2}) == Curve(1, begin=1, finish=2)


def test_schedules_of_another_kind_or_value_are_not_equal():
    schedules = [parse_schedule("x", w) for w in (0.5, 1, "lin_0.5", "lin_1", {"start": 0.5}, {"start": 1}, [[0, 1]])]
    assert len(set(schedules)) == len(schedules)


def test_kinds_are_told_apart():
    assert isinstance(parse_schedule("x", {"start": 1}), Curve)
    assert isinstance(parse_schedule("x", [[0, 1], [1, 2]]), Points)
