"""Observations as text."""

import numpy as np
import pytest
from gymnasium import spaces

from sb3_ext.runs.play.text_view import TextView

VECTOR = spaces.Box(-2.0, 2.0, (2,), np.float32)


def test_numbers_have_their_names_and_bars_from_zero():
    lines = TextView(VECTOR, ["speed", "angular speed"]).lines(np.array([1.0, -2.0], np.float32))
    assert lines == [
        "speed              1.000  ············│██████······",
        "angular speed     -2.000  ████████████│············",
    ]


def test_a_terminal_without_unicode_gets_ascii():
    assert "".join(TextView(VECTOR, is_ascii=True).lines(np.ones(2))).isascii()


def test_numbers_without_bounds_have_bars_up_to_the_largest_so_far():
    view = TextView(spaces.Box(-np.inf, np.inf, (1,), np.float32))
    bars = [view.lines(np.array([value]))[0].split()[-1] for value in (1.0, 4.0, 1.0)]
    assert [bar.count("█") for bar in bars] == [12, 12, 3]


def test_a_state_is_a_number():
    assert TextView(spaces.Discrete(16)).lines(np.array(5)) == ["state  5 of 16"]


def test_each_part_of_a_dictionary_is_shown():
    space = spaces.Dict({"where": VECTOR, "key": spaces.Discrete(3)})
    lines = TextView(space).lines({"where": np.zeros(2), "key": np.array(2)})
    assert lines[0] == "key  2 of 3" and [line[:7] for line in lines[1:]] == ["where 0", "where 1"]


@pytest.mark.parametrize("shape", [(84, 84), (84, 84, 4), (4, 84, 84)])
def test_an_image_is_drawn_in_characters(shape):
    image = np.zeros(shape, np.uint8)
    newest = image if len(shape) == 2 else image[..., -1] if shape[0] == 84 else image[-1]
    newest[:42, 42:] = 255
    lines = TextView(spaces.Box(0, 255, shape, np.uint8)).lines(image)
    assert len(lines) == 24 and lines[0] == " " * 32 + "@" * 32 and lines[-1] == " " * 64


def test_of_long_vectors_the_first_numbers_are_shown():
    lines = TextView(spaces.Box(0, 255, (128,), np.uint8)).lines(np.arange(128))
    assert len(lines) == 25 and lines[-1] == "and 104 more"
