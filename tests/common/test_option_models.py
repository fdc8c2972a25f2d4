"""Options are read from YAML as meant; what makes no sense is refused, all problems at once."""

import math
from typing import Literal

import pytest
from pydantic import Field, ValidationError

from sb3_ext.common.options import (
    Count,
    Fraction,
    Integer,
    Items,
    KeyValues,
    Number,
    Options,
    Strings,
    Switch,
    read_keywords,
    read_options,
    read_switch,
)


class Axis(Options):
    label: str
    limit: Number | None = None


class Plots(Options):
    """Options with a field of each kind."""

    size: Count = 3
    offset: Integer = 0
    height: Number = 1.0
    alpha: Fraction = 1.0
    title: Literal["score", "loss"] = "score"
    grid: bool = False
    tags: Strings = ()
    more: KeyValues = Field(default_factory=dict)
    axis: Switch[Axis] = None
    axes: Items[Axis] = ()


def read_plots(raw):
    return read_options(Plots, raw, "plots")


@pytest.mark.parametrize(
    ("name", "raw", "meant"),
    [
        ("size", "1e5", 100_000),
        ("size", 1.0e5, 100_000),
        ("offset", -2, -2),
        ("height", "-1e-4", -1e-4),
        ("height", 3, 3.0),
        ("alpha", 0, 0.0),
        ("alpha", 1, 1.0),
        ("title", "loss", "loss"),
        ("grid", True, True),
        ("tags", "one", ("one",)),
        ("tags", ["one", "two"], ("one", "two")),
        ("tags", [], ()),
        ("more", None, {}),
        ("more", {"a": 1}, {"a": 1}),
        ("axis", False, None),
        ("axis", {"label": "x", "limit": "2"}, Axis(label="x", limit=2.0)),
        ("axes", [{"label": "x"}], (Axis(label="x"),)),
    ],
)
def test_what_is_written_is_read_as_meant(name, raw, meant):
    value = getattr(read_plots({name: raw}), name)
    assert value == meant
    assert type(value) is type(meant)


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        ({"size": 0}, "plots: size=0 must be at least 1."),
        ({"size": 2.5}, "plots: size=2.5 must be a whole number."),
        ({"size": True}, "plots: size=True must be a number."),
        ({"size": None}, "plots: size=None must be a number."),
        ({"height": "high"}, "plots: height='high' must be a number."),
        ({"height": math.nan}, "plots: height=nan must be a finite number."),
        ({"height": "inf"}, "plots: height=inf must be a finite number."),
        ({"alpha": 1.01}, "plots: alpha=1.01 must be at most 1."),
        ({"alpha": -0.01}, "plots: alpha=-0.01 must be at least 0."),
        ({"title": "los"}, "plots: title='los' must be 'score' or 'loss': did you mean 'loss'?"),
        ({"title": 3}, "plots: title=3 must be 'score' or 'loss'."),
        ({"grid": "no"}, "plots: grid='no' must be true or false (without quotes in YAML)."),
        ({"grid": 1}, "plots: grid=1 must be true or false (without quotes in YAML)."),
        ({"tags": ["x", ""]}, "plots: tags: 2='' must not be empty."),
        ({"tags": [1]}, "plots: tags: 1=1 must be a string."),
        ({"tags": "x" * 201}, f"plots: tags: 1='{'x' * 201}' must have at most 200 characters."),
        ({"tags": 5}, "plots: tags=5 must be a list."),
        ({"more": [1]}, "plots: more=[1] must be a mapping."),
        ({"axis": 3}, "plots: axis=3 must be true, false or a mapping of options."),
        ({"axes": [3]}, "plots: axes: 1=3 must be a mapping of options."),
        (3, "plots=3 must be a mapping of options."),
    ],
)
def test_a_value_that_makes_no_sense_is_refused(raw, message):
    with pytest.raises(ValueError) as refused:
        read_plots(raw)
    assert str(refused.value) == message


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        ({"sise": 1}, "plots has no option 'sise': did you mean 'size'?"),
        ({"axis": {"label": "x", "limits": 1}}, "plots: axis has no option 'limits': did you mean 'limit'?"),
        ({"axes": [{"label": "x", "q": 1}]}, "plots: axes: 1 has no option 'q': known: label, limit."),
        ({"axis": {}}, "plots: axis needs label."),
    ],
)
def test_unknown_and_missing_names_are_type_errors(raw, message):
    with pytest.raises(TypeError) as refused:
        read_plots(raw)
    assert str(refused.value) == message


def test_all_problems_are_told_at_once():
    with pytest.raises(ValueError) as refused:
        read_plots({"size": 0, "sise": 1, "axis": {"label": 3}})
    assert str(refused.value).splitlines() == [
        "plots: size=0 must be at least 1.",
        "plots: axis: label=3 must be a string.",
        "plots has no option 'sise': did you mean 'size'?",
    ]


@pytest.mark.parametrize(
    ("raw", "meant"),
    [
        (None, None),
        (False, None),
        (True, Plots()),
        (Plots(size=4), Plots(size=4)),
        ({}, Plots()),
        ({"size": "5"}, Plots(size=5)),
    ],
)
def test_a_switch_is_on_off_or_has_options(raw, meant):
    assert read_switch(Plots, raw, "plots") == meant


@pytest.mark.parametrize("raw", ["yes", 1, []])
def test_a_switch_that_makes_no_sense_is_refused(raw):
    with pytest.raises(ValueError, match=r"must be true, false or a mapping of options \(size, offset"):
        read_switch(Plots, raw, "plots")


def test_options_are_frozen():
    with pytest.raises(ValidationError):
        Plots().size = 4


class Owner:
    """A callback, as far as its options are concerned."""


def test_a_callback_takes_its_options_or_their_fields():
    assert read_keywords(Plots, None, {"size": 5}, Owner()) == Plots(size=5)
    assert read_keywords(Plots, Plots(size=5), {}, Owner()) == Plots(size=5)
    with pytest.raises(TypeError, match="Owner: give either options or size, not both"):
        read_keywords(Plots, Plots(), {"size": 5}, Owner())
    with pytest.raises(ValueError, match="Owner: size=0 must be at least 1"):
        read_keywords(Plots, None, {"size": 0}, Owner())
