"""Curves and tables of a report have the numbers that were logged."""

import math

from report_folders import is_shown, logged, part_of, rows_of, tables_of


def test_every_number_of_the_table_with_all_metrics_is_that_of_the_rows(reported_run):
    (table,) = tables_of(part_of((reported_run / "report.md").read_text(), "All numbers"))
    shown = {cells[0]: cells[1:] for cells in table[1:]}
    names = {name for row in rows_of(reported_run) for name in row}
    assert set(shown) == names and "train/approx_kl" in names
    for name in names:
        values = logged(reported_run, name)
        first, last, smallest, largest, count, _ = shown[name]
        assert is_shown(first, values[0]) and is_shown(last, values[-1]), name
        finite = [value for value in values if math.isfinite(value)]
        assert is_shown(smallest, min(finite)) and is_shown(largest, max(finite)), name
        assert int(count) == len(values)


def test_sampled_points_below_the_charts_are_rows_of_the_training(reported_run):
    curves = part_of((reported_run / "report.md").read_text(), "Curves")
    tables = [table for table in tables_of(curves) if table[0][0] == "step"]
    assert {"train/explained_variance", "train/entropy_loss", "time/fps"} <= {table[1][0] for table in tables}
    for steps, (name, *values) in tables:
        rows = [(row["time/total_timesteps"], row[name]) for row in rows_of(reported_run) if name in row]
        assert min(5, len(rows)) <= len(values) <= 10
        for step, value in zip(steps[1:], values, strict=True):
            assert any(is_shown(step, at) and is_shown(value, number) for at, number in rows), (name, step, value)
