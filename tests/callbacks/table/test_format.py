"""What stands in a table: numbers as text, what fits, what is kept from row to row."""

import math

import pytest
from rich.text import Text

from sb3_ext.callbacks.table.format import arrow, clock, format_value, trend
from sb3_ext.callbacks.table.layout import fit
from sb3_ext.callbacks.table.state import TableState, alerts_of
from sb3_ext.callbacks.table.view import TableView, _beside
from sb3_ext.metrics.catalogue import MetricInfo, describe, ordered
from sb3_ext.metrics.curves import CurveStore


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("time/total_timesteps", 1234567, "1,234,567"),
        ("time/time_elapsed", 3723.4, "1:02:03"),
        ("rollout/ep_rew_mean", 22.256, "22.26"),
        ("rollout/ep_rew_mean", -0.012345, "-0.01235"),
        ("rollout/ep_rew_mean", 12345.6, "12,346"),
        ("train/approx_kl", 0.00812345, "0.00812"),
        ("train/approx_kl", 1.2e-7, "1.20e-07"),
        ("train/loss", 0.0, "0.00"),
        ("train/explained_variance", -0.0001, "0.000"),
        ("train/loss", math.nan, "nan"),
        ("train/loss", -math.inf, "-inf"),
        ("custom/count", 17.0, "17"),
        ("custom/number", 0.5, "0.5000"),
        ("custom/text", "fine", "fine"),
    ],
)
def test_a_value_has_the_precision_of_its_metric(name, value, text):
    assert format_value(describe(name), value) == text


def test_a_clock_has_hours_minutes_and_seconds():
    assert [clock(seconds) for seconds in (0, 59.6, 3599.9, 360000)] == ["0:00:00", "0:01:00", "1:00:00", "100:00:00"]


def test_an_arrow_shows_a_change_that_can_be_seen():
    info = MetricInfo(name="x", decimals=1, better="lower")
    assert [arrow(info, 1.0, value) for value in (1.04, 1.2, 0.8, math.nan)] == ["", "▲", "▼", ""]
    assert arrow(info, None, 1.0) == ""
    assert [trend(info, sign) for sign in ("▲", "▼", "")] == ["bad", "good", ""]


def test_columns_stand_below_each_other():
    lines = [
        _beside([Text("ab"), Text("c")], 5),
        _beside([None, Text("c")], 5),
        _beside([Text("longer"), Text("c")], 5),
    ]
    assert [line.plain for line in lines] == ["ab     c", "       c", "longer  c"]


@pytest.mark.parametrize(("width", "n_columns"), [(117, 1), (118, 2), (177, 2), (178, 3)])
def test_a_wide_terminal_gets_a_column_for_each_58_characters(width, n_columns):
    state = TableState()
    state.add(1, {f"custom/{index:02}": 1.0 for index in range(12)})
    lines = TableView(CurveStore()).lines(state, width, 12 // n_columns + 2)
    assert max(sum(f" {index:02} " in f" {line.plain} " for index in range(12)) for line in lines) == n_columns


def test_what_fits_is_chosen_by_priority_and_stays_in_order():
    names = tuple(ordered(["time/fps", "train/approx_kl", "train/clip_range", "train/loss", "rollout/ep_rew_mean"]))
    assert fit(names, 100, 1) == (names,)
    assert fit(names, 4, 1) == (("rollout/ep_rew_mean", "train/approx_kl"),)
    assert fit(names, 4, 1, first=frozenset({"train/clip_range"})) == (("rollout/ep_rew_mean", "train/clip_range"),)
    assert fit(names, 4, 2)[0] == ("rollout/ep_rew_mean", "train/approx_kl")
    assert fit(names, 1, 3) == ()


def test_what_a_row_does_not_have_stays_as_it_was():
    state = TableState()
    state.add(1, {"train/loss": 1.0, "alert/x": 1})
    state.add(2, {"eval/mean_reward": 5.0})
    assert state.cells["train/loss"].value == 1.0 and not state.cells["train/loss"].is_old
    assert state.alerts(None) == {"": ["x"]}
    assert state.names == ["train/loss", "eval/mean_reward"]
    for step in (3, 4):
        state.add(step, {"train/std": 0.5})
    assert state.cells["train/loss"].is_old and not state.cells["eval/mean_reward"].is_old


def test_alerts_are_told_by_metric():
    values = {"alert/b": 1, "alert/a": 1, "alert/c": 0, "alert/total": 7, "alert/d": 1}
    assert alerts_of(values, {"a": "train/loss", "b": "train/loss"}.get) == {"train/loss": ["a", "b"], "": ["d"]}
