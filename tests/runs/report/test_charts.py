"""Charts made of characters look like the curves that they are of."""

import math

import numpy as np
import pytest

from sb3_ext.runs.report.charts import _n_bins, chart, compact, markdown_table, number, sample_points, sparkline

BLOCKS = " ▁▂▃▄▅▆▇█"


def heights(text):
    """How high each column of characters is, in eighths of a line; lines that are drawn behind count as empty."""
    rows = [line.split("┤", 1)[1] for line in text.split("\n") if "┤" in line]
    rows = [row.split(" ←")[0] for row in rows]
    width = max(map(len, rows))
    cells = [row.ljust(width).replace("╌", " ") for row in rows]
    return [sum(BLOCKS.find(row[column]) for row in cells) for column in range(width)]


def labels(text):
    return [line.split("┤")[0].strip() for line in text.split("\n") if "┤" in line]


def test_a_rising_curve_rises_and_has_its_numbers_at_the_axes():
    steps = np.arange(1, 101) * 1000
    text = chart(steps, np.linspace(22.5, 500, 100), width=50, height=8)
    drawn = heights(text)
    assert drawn == sorted(drawn) and len(drawn) == 50
    assert drawn[0] == 1 and drawn[-1] == 8 * 8
    said = labels(text)
    # A column is a mean of two values
    assert said[0] == "497.6" and said[-1] == "24.91" and said[1] == ""
    assert text.endswith("100k steps") and " 1k " in text.split("\n")[-1]


@pytest.mark.parametrize("values", [np.linspace(5, -5, 40), -(np.arange(40.0) ** 2)], ids=["line", "parabola"])
def test_a_falling_curve_falls(values):
    drawn = heights(chart(np.arange(40), values, width=40))
    assert drawn == sorted(drawn, reverse=True) and drawn[0] > drawn[-1]


def test_a_peak_is_where_it_is():
    values = np.zeros(60)
    values[45] = 1.0
    assert int(np.argmax(heights(chart(np.arange(60), values, width=60)))) == 45


def test_few_points_get_wide_columns():
    text = chart([0, 100, 200, 300], [1.0, 2.0, 3.0, 4.0], width=24, height=4)
    drawn = heights(text)
    assert len(drawn) == 24
    assert [drawn[index] for index in (0, 6, 12, 18)] == sorted({*drawn})


def test_what_is_not_evenly_spaced_is_placed_by_its_step():
    text = chart([0, 10, 20, 30, 1000], [5.0, 5.0, 5.0, 5.0, 9.0], width=5, height=4)
    drawn = heights(text)
    assert drawn[0] > 0 and drawn[-1] > drawn[0]


@pytest.mark.parametrize(
    ("steps", "n_columns"),
    [
        (range(30), 30),
        # One span more would have points in less than four fifths of all
        ([*range(10), 20], 5),
        # At least a third of the points
        ([*range(29), 10_000], 10),
    ],
    ids=["even", "a gap", "far away"],
)
def test_most_columns_have_points(steps, n_columns):
    steps = np.array(steps)
    assert _n_bins(steps, len(steps)) == n_columns


def test_nan_is_marked_and_counted_and_hides_nothing_else():
    values = np.linspace(0, 1, 20)
    values[7], values[9] = np.nan, np.inf
    text = chart(np.arange(20), values, width=20, height=4)
    bottom = [line for line in text.split("\n") if "┤" in line][-1].split("┤")[1]
    assert [index for index, character in enumerate(bottom) if character == "!"] == [7, 9]
    assert "2 of 20 values are not finite (!)" in text
    assert labels(text)[0] == "1" and labels(text)[-1] == "0"


def test_a_constant_is_a_flat_line_with_its_value_in_the_middle():
    text = chart(np.arange(30), np.full(30, 0.3), height=5)
    assert len(set(heights(text))) == 1 and 0 < heights(text)[0] < 5 * 8
    assert "0.3" in labels(text)


@pytest.mark.parametrize(
    ("steps", "values", "said"),
    [
        ([], [], "(no values)"),
        ([1, 2], [math.nan, math.inf], "(2 values, none of them finite)"),
    ],
)
def test_where_there_is_nothing_to_draw_it_says_so(steps, values, said):
    assert chart(steps, values) == said


def test_one_point_is_one_column():
    text = chart([2048], [21.5])
    assert len(set(heights(text))) == 1
    assert "21.5" in labels(text) and "2.048k steps" in text


def test_huge_numbers_are_drawn_too():
    drawn = heights(chart([0, 1], [-1.5e308, 1.5e308], width=2))
    assert drawn[0] < drawn[-1]
    assert sparkline([-1.5e308, 1.5e308]) == "▁█"


def test_a_spike_leaves_the_rest_visible_on_a_log_scale():
    text = chart(np.arange(20), np.concatenate([[5000.0], np.linspace(1, 20, 19)]), width=20)
    assert "(log scale)" in text
    assert len(set(heights(text)[1:])) > 10


def test_a_threshold_is_a_dashed_line_with_its_number():
    text = chart(np.arange(20), np.linspace(0, 300, 20), width=20, height=6, line=475)
    (line,) = [line for line in text.split("\n") if "╌" in line]
    assert line.endswith("← 475") and line.startswith("475 ┤")


def test_a_far_threshold_does_not_flatten_the_curve():
    text = chart(np.arange(20), np.linspace(-200, -190, 20), width=20, height=6, line=900)
    assert "╌" not in text and "900 is above this chart" in text
    assert heights(text)[-1] == 6 * 8


@pytest.mark.parametrize("kwargs", [{"width": 1}, {"height": 1}])
def test_a_chart_needs_room(kwargs):
    with pytest.raises(ValueError, match="must be 2 or more"):
        chart([0, 1], [0.0, 1.0], **kwargs)


def test_steps_and_values_belong_together():
    with pytest.raises(ValueError, match="2 steps and 1 values"):
        chart([0, 1], [0.0])


@pytest.mark.parametrize(
    ("values", "line"),
    [
        ([0, 1, 2, 3, 4, 5, 6, 7], "▁▂▃▄▅▆▇█"),
        ([3, 3, 3], "▄▄▄"),
        ([0.1] * 50, "▄" * 20),
        ([0, math.nan, 7], "▁!█"),
        ([math.inf, math.nan], "!!"),
        ([1e308, -1e308, 1e308], "█▁█"),
        ([5], "▄"),
        ([math.nan], "!"),
        ([], ""),
    ],
)
def test_a_sparkline_has_the_shape_of_the_curve(values, line):
    assert sparkline(values) == line


def test_a_character_of_a_sparkline_is_a_mean():
    assert sparkline([0, 0, 7, 7, math.nan, 7], 3, broken="·") == "▁██"
    assert sparkline([0, math.nan, 7], 3, broken="·") == "▁·█"


def test_a_sparkline_of_many_values_is_short():
    line = sparkline(np.linspace(0, 1, 1000), width=16)
    assert len(line) == 16 and list(line) == sorted(line)


@pytest.mark.parametrize("n_values", [1, 2, 9, 10, 11, 1000])
def test_sampled_points_are_points_of_the_curve_with_its_ends(n_values):
    steps, values = np.arange(n_values) * 7, np.random.default_rng(0).normal(size=n_values)
    points = sample_points(steps, values)
    assert len(points) == min(n_values, 10)
    assert points[0] == (0, values[0]) and points[-1] == (steps[-1], values[-1])
    assert all(values[step // 7] == value for step, value in points)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        *((0.0, "0"), (-0.0, "0"), (475.0, "475"), (100352, "100,352"), (12345.6, "12,346"), (0.0123456, "0.01235")),
        *((-3.14159, "-3.142"), (3e-7, "3e-07"), (2.5e12, "2.5e+12"), (math.nan, "NaN"), (-math.inf, "-inf")),
    ],
)
def test_numbers_are_short_and_whole_ones_are_whole(value, text):
    assert number(value) == text


@pytest.mark.parametrize(("step", "text"), [(0, "0"), (256, "256"), (25600, "25.6k"), (1e6, "1M"), (2.5e9, "2.5G")])
def test_steps_are_written_in_few_characters(step, text):
    assert compact(step) == text


def test_a_table_is_aligned_and_its_cells_cannot_break_it():
    lines = markdown_table(["a", "bcd"], [["1|2", "x\ny"]])
    assert lines == ["| a    | bcd |", "| ---- | --- |", "| 1\\|2 | x y |"]
