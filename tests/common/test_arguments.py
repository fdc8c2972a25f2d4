"""Arguments as YAML gives them are read as meant, or refused with an error that names them."""

import math
from functools import partial

import numpy as np
import pytest

from sb3_ext.common.arguments import read_flag, read_number, read_whole


@pytest.mark.parametrize(
    ("read", "raw", "meant"),
    [
        (read_number, "1e-4", 1e-4),
        (read_number, 3, 3.0),
        (read_number, math.inf, math.inf),
        (read_whole, "1e5", 100_000),
        (read_whole, 1, 1),
        (partial(read_whole, at_least=0), 0, 0),
        (read_flag, np.True_, True),
        (read_flag, False, False),
    ],
)
def test_an_argument_is_read_as_meant(read, raw, meant):
    value = read("option", raw)
    assert value == meant
    assert type(value) is type(meant)


@pytest.mark.parametrize(
    ("read", "raw", "message"),
    [
        (read_number, "three", "option='three' must be a number."),
        (read_number, True, "option=True must be a number."),
        (read_number, np.False_, "must be a number."),
        (read_number, None, "option=None must be a number."),
        (read_number, [1], r"option=\[1\] must be a number."),
        (read_whole, 0, "option=0 must be a whole number, at least 1."),
        (read_whole, 2.5, "option=2.5 must be a whole number, at least 1."),
        (read_whole, math.inf, "must be a whole number"),
        (read_whole, math.nan, "must be a whole number"),
        (partial(read_whole, at_least=3), 2, "at least 3"),
        (read_flag, "no", "option='no' must be True or False"),
        (read_flag, 1, "option=1 must be True or False"),
    ],
)
def test_an_argument_that_makes_no_sense_is_refused(read, raw, message):
    with pytest.raises(ValueError, match=message):
        read("option", raw)
