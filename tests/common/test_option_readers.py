"""Values as a config has them are read as meant, or refused with an error that names the option."""

import math
from dataclasses import dataclass
from functools import partial

import numpy as np
import pytest

from sb3_ext.common.option_readers import (
    may_be_none,
    read_choice,
    read_finite,
    read_flag,
    read_mapping,
    read_number,
    read_share,
    read_switch,
    read_texts,
    read_whole,
    switched,
)


@dataclass(frozen=True)
class Plots:
    """Options as a callback has them."""

    size: int = 3
    title: str = "score"


READERS = {"size": read_whole, "title": partial(read_choice, allowed=("score", "loss"))}
read_plots = partial(read_switch, config=Plots, readers=READERS, where="plots:", example="size: 3")
read_letters = partial(read_texts, longest=3)


@pytest.mark.parametrize(
    ("read", "written", "meant"),
    [
        (read_number, "1e-4", 1e-4),
        (read_number, 3, 3.0),
        (read_number, math.inf, math.inf),
        (read_finite, "-2", -2.0),
        (partial(read_finite, at_least=1.5), 1.5, 1.5),
        (read_whole, "1e5", 100_000),
        (read_whole, 1, 1),
        (partial(read_whole, at_least=0), 0, 0),
        (read_share, 0, 0.0),
        (read_share, 1, 1.0),
        (read_flag, np.True_, True),
        (read_flag, False, False),
        (partial(read_choice, allowed=["a", "b"]), "b", "b"),
        (read_letters, "abc", ("abc",)),
        (read_letters, ["a", "bc"], ("a", "bc")),
        (read_letters, [], ()),
        (read_mapping, None, {}),
        (read_mapping, {"a": 1}, {"a": 1}),
        (may_be_none(read_whole), None, None),
        (may_be_none(read_whole), "7", 7),
    ],
)
def test_what_is_written_is_read_as_meant(read, written, meant):
    value = read("option", written)
    assert value == meant
    assert type(value) is type(meant)


@pytest.mark.parametrize(
    ("read", "written", "message"),
    [
        (read_number, "three", "option='three' must be a number."),
        (read_number, True, "option=True must be a number."),
        (read_number, np.False_, "must be a number."),
        (read_number, None, "option=None must be a number."),
        (read_number, [1], r"option=\[1\] must be a number."),
        (read_finite, "inf", r"option='inf' must be a finite number\."),
        (read_finite, math.nan, "must be a finite number"),
        (partial(read_finite, at_least=1), 0.9, "option=0.9 must be a finite number, at least 1."),
        (read_whole, 0, "option=0 must be a whole number, at least 1."),
        (read_whole, 2.5, "option=2.5 must be a whole number, at least 1."),
        (partial(read_whole, at_least=3), 2, "at least 3"),
        (read_share, 1.01, "option=1.01 must be a share, from 0 to 1."),
        (read_share, -0.01, "must be a share"),
        (read_flag, "no", "option='no' must be True or False"),
        (read_flag, 1, "option=1 must be True or False"),
        (partial(read_choice, allowed=["left", "right"]), "lefd", "did you mean 'left'"),
        (read_letters, "abcd", "option='abcd' must be a list of texts, with at most 3 letters each."),
        (read_letters, [""], "must be a list of texts"),
        (read_letters, [1], "must be a list of texts"),
        (read_letters, 5, "must be a list of texts"),
        (read_mapping, [1], r"option: \[1\] must be keys with values."),
    ],
)
def test_what_makes_no_sense_is_refused(read, written, message):
    with pytest.raises(ValueError, match=message):
        read("option", written)


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        (None, None),
        (False, None),
        (True, Plots()),
        (Plots(size=4), Plots(size=4)),
        ({}, Plots()),
        ({"size": "5"}, Plots(size=5)),
        ({"size": 2, "title": "loss"}, Plots(2, "loss")),
    ],
)
def test_a_switch_is_on_off_or_has_options(written, meant):
    assert read_plots(written) == meant


@pytest.mark.parametrize(
    ("written", "error", "message"),
    [
        ("yes", ValueError, r"plots: 'yes' must be true, false, or keys with values, such as \{size: 3\}."),
        (1, ValueError, "must be true, false"),
        ({"sise": 1}, TypeError, "plots: has no parameter 'sise': did you mean 'size'"),
        ({"size": 0}, ValueError, "plots: size=0 must be a whole number"),
    ],
)
def test_a_switch_that_makes_no_sense_is_refused(written, error, message):
    with pytest.raises(error, match=message):
        read_plots(written)


def test_options_of_a_switch_are_a_copy():
    written = {"size": 1}
    found = switched(written, Plots, "plots:", "size: 3")
    found["size"] = 2
    assert written == {"size": 1}
