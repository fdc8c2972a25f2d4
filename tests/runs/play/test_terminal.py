"""Keys that a terminal sends have the names that they have in a window."""

import pytest

from sb3_ext.runs.play.keys import NAMED_KEYS
from sb3_ext.runs.play.terminal import split_keys


@pytest.mark.parametrize(
    ("sent", "keys"),
    [
        ("aB ", ["a", "b", "space"]),
        ("\x1b[A\x1b[B\x1b[C\x1b[D", ["up", "down", "right", "left"]),
        ("\x1bOD", ["left"]),  # in the mode of applications
        ("\x1b", ["escape"]),
        ("q\x03", ["q", "escape"]),
        ("\r\t\x7f", ["enter", "tab", "backspace"]),
    ],
)
def test_what_a_terminal_sends_is_split_into_keys(sent, keys):
    assert split_keys(sent) == keys


def test_every_key_with_a_name_can_be_sent():
    assert {*split_keys("\x1b[A\x1b[B\x1b[C\x1b[D \r\t\x7f")} == {*NAMED_KEYS}
