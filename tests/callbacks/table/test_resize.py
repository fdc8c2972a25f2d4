"""The table in narrow terminals, and in one that is resized."""

import io
import re

import pytest
from rich.console import Console
from rich.text import Text

from sb3_ext.callbacks.table.format import format_value
from sb3_ext.callbacks.table.resize import ResizableLive
from sb3_ext.callbacks.table.state import TableState
from sb3_ext.callbacks.table.view import Footer, TableView
from sb3_ext.metrics.catalogue import catalogue, describe
from sb3_ext.metrics.curves import CurveStore

NAMES = [info.name for info in catalogue().metrics if "*" not in info.name and info.group != "alert"]
ALERTS = ["entropy_collapse", "kl_high", "reward_stall", "value_useless"]


def table(width, height=1000, value=-1234.5):
    state = TableState()
    state.add(1000, {**dict.fromkeys(NAMES, value), **{f"alert/{alert}": 1.0 for alert in ALERTS}})
    view = TableView(CurveStore(), lambda alert: f"train/{alert}")
    return [line.plain for line in view.lines(state, width, height)]


@pytest.mark.parametrize("width", [40, 45, 60, 80, 117, 200])
def test_names_values_and_alerts_are_whole(width):
    lines = table(width)
    assert max(map(len, lines)) <= width
    words = re.split(r"[\s,]{2,}|\s|,(?!\d)", "\n".join(lines))
    for name in NAMES:
        assert describe(name).short_name in words
        assert format_value(describe(name), -1234.5) in words
    assert set(ALERTS) <= set(words)


def test_alerts_that_take_several_lines_leave_the_others_their_room():
    lines = table(40, height=12)
    assert len(lines) <= 12
    assert all(alert in "\n".join(lines) for alert in ALERTS)


@pytest.mark.parametrize(
    ("width", "text"),
    [
        (79, "12% 1,200,000 of 10,000,000 steps, 3,456 episodes, 1,234 steps/s, 12:34:56 left"),
        (78, "12% 1,200,000 of 10,000,000 steps, 1,234 steps/s, 12:34:56 left"),
        (60, "12% 1,200,000 of 10,000,000 steps, 12:34:56 left"),
        (40, "12% 1,200,000, 12:34:56 left"),
    ],
)
def test_progress_and_time_left_are_told_at_any_width(width, text):
    footer = Footer(1_200_000, 10_000_000, 3456, 1234.0, 45296.0)
    assert footer.text(width) == text


def test_before_the_first_step_no_speed_is_told():
    assert Footer(0, 100, 0, 0.0, None).text(80) == "0% 0 of 100 steps, 0 episodes"


def rows_erased(output):
    """How many rows the last frame erased before it was drawn."""
    return re.findall(r"(?:\x1b\[2K|\x1b\[1A|\r)+", output)[-1].count("\x1b[2K")


class Screen:
    """A terminal with a live display of 20 lines, 80 wide; a print comes through the console, as others' prints do."""

    def __init__(self):
        self.console = Console(file=io.StringIO(), force_terminal=True, width=100, height=30)
        self.live = ResizableLive(self.console, lambda: Text("\n".join(["x" * 80] * 20), no_wrap=True, overflow="crop"))
        self.live.start(refresh=True)

    def erased(self, size=None):
        if size is not None:
            self.console.size = size
        before = self.console.file.tell()
        self.live.refresh()
        return rows_erased(self.console.file.getvalue()[before:])


@pytest.mark.parametrize(
    ("sizes", "erased"),
    [
        ([(100, 30)], [20]),
        ([(120, 50)], [20]),
        ([(80, 50)], [20]),
        # Each line takes two rows now, and the new ones only one
        ([(50, 50), (50, 50)], [40, 20]),
        # The upper half has left the screen, and comes back
        ([(100, 10), (100, 10), (100, 30)], [10, 10, 20]),
    ],
)
def test_after_a_resize_all_that_can_be_reached_is_erased(sizes, erased):
    screen = Screen()
    assert [screen.erased(size) for size in sizes] == erased
    screen.live.stop()


def test_a_message_is_not_erased_with_what_has_left_the_screen():
    screen = Screen()
    screen.erased((100, 10))
    screen.console.print("A message")
    assert screen.erased((100, 30)) == 10
    screen.live.stop()
