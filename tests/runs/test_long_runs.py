"""Files of trainings that are too long to be in memory."""

import csv
import io
import json
import math

import numpy as np
import pytest

from sb3_ext.runs.logs import MAX_POINTS, read_episodes, read_progress
from sb3_ext.runs.report.report import make_report

STEP, SECONDS = "time/total_timesteps", "time/time_elapsed"


@pytest.fixture(autouse=True, params=[0, 1 << 40], ids=["pandas", "csv"])
def reader(request, monkeypatch):
    """Large blocks are read by pandas, small ones by Python's own reader: both find the same."""
    monkeypatch.setattr("sb3_ext.runs.csv_blocks._WORTH_PANDAS", request.param)


def write_csv(folder, rows):
    names = list(dict.fromkeys(name for row in rows for name in row))
    text = io.StringIO()
    writer = csv.DictWriter(text, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    (folder / "progress.csv").write_text(text.getvalue())


def long_rows(n_rows):
    rng = np.random.default_rng(0)
    rows = [
        {STEP: 8 * (i + 1), SECONDS: float(i), "train/loss": loss} for i, loss in enumerate(rng.normal(size=n_rows))
    ]
    rows[7001]["train/loss"], rows[9003]["train/loss"] = 50.0, -50.0
    for i in (11_003, 12_001):
        rows[i]["train/loss"] = math.nan
    for i in range(0, n_rows, 1000):
        rows[i]["eval/mean_reward"] = float(i)
    return rows


def test_a_long_curve_is_thinned_out_and_keeps_what_a_report_tells(tmp_path):
    n_rows = 4 * MAX_POINTS + 123
    rows = long_rows(n_rows)
    write_csv(tmp_path, rows)
    progress = read_progress(tmp_path)
    losses = progress.series["train/loss"]
    assert MAX_POINTS / 2 < len(losses.values) < MAX_POINTS + 10
    written = {row[STEP]: row["train/loss"] for row in rows}
    assert all(math.isnan(value) or written[step] == value for step, value in zip(*losses, strict=True))
    assert (losses.finite.values.max(), losses.finite.values.min()) == (50.0, -50.0)
    assert (losses.steps[0], losses.steps[-1]) == (8, 8 * n_rows) and np.all(np.diff(losses.steps) > 0)
    assert list(progress.series["eval/mean_reward"].values) == [float(i) for i in range(0, n_rows, 1000)]
    report = make_report(tmp_path)
    assert f"`train/loss` (2 values); the first was `train/loss` at step {8 * 11_004:,}" in report
    assert f"`progress.csv`: {n_rows} rows; curves show about {MAX_POINTS:,} of them" in report
    assert f"| {n_rows} " in report  # values of the metric


@pytest.mark.parametrize("block", [1, 40, 100, 10_000])
def test_it_does_not_matter_where_a_file_is_cut_into_blocks(tmp_path, monkeypatch, block):
    monkeypatch.setattr("sb3_ext.runs.csv_blocks._BLOCK_BYTES", block)
    earlier = [{STEP: 10 * i, SECONDS: i, "train/loss": 9.0} for i in (1, 2, 3)]
    latest = [
        {STEP: 10, SECONDS: 1.5, "train/loss": 0.1, "text": "a, b"},
        {SECONDS: 2.5, "train/loss": math.nan, "eval/mean_reward": 5.0, "eval/step": 7},
        {STEP: 30, SECONDS: 3.5, "train/loss": math.inf, "flag": True},
    ]
    write_csv(tmp_path, earlier + latest)
    with (tmp_path / "progress.csv").open("a") as file:
        file.write("40,4.")
    progress = read_progress(tmp_path)
    assert (progress.n_rows, progress.n_earlier, progress.n_broken) == (3, 3, 1)
    shown = {name: [series.steps.tolist(), series.values.tolist()] for name, series in progress.series.items()}
    assert str(shown.pop("train/loss")) == str([[10, 10, 30], [0.1, math.nan, math.inf]])
    assert shown.pop("eval/mean_reward") == [[7], [5.0]] and shown.pop("flag") == [[30], [1.0]]
    assert set(shown) == {STEP, SECONDS, "eval/step"}
    losses = progress.curves["train/loss"]
    assert (losses.n_values, losses.n_broken, losses.broken_from) == (3, 2, 10)


@pytest.mark.parametrize(("n_ragged", "file", "n_rows"), [(0, "progress.csv", 5), (3, "progress.json", 6)])
def test_the_other_file_is_read_only_where_the_first_is_damaged(tmp_path, n_ragged, file, n_rows):
    rows = [{STEP: step, "train/loss": 1.0} for step in range(1, 7)]
    write_csv(tmp_path, rows[:5])
    (tmp_path / "progress.json").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    lines = (tmp_path / "progress.csv").read_text().splitlines()
    lines[2 : 2 + n_ragged] = ["1,2,3"] * n_ragged
    (tmp_path / "progress.csv").write_text("\n".join(lines) + "\n")
    progress = read_progress(tmp_path)
    assert (progress.file, progress.n_rows) == (file, n_rows)


def test_lines_of_different_lengths_that_make_up_for_each_other_are_broken(tmp_path):
    (tmp_path / "progress.csv").write_text("a,b\n1,2\n3\n4,5,6\n7,8\n")
    progress = read_progress(tmp_path)
    assert (progress.n_rows, progress.n_broken) == (2, 2)
    assert progress.series["a"].values.tolist() == [1.0, 7.0]


def test_monitors_files_are_read_in_blocks_too(tmp_path, monkeypatch):
    monkeypatch.setattr("sb3_ext.runs.csv_blocks._BLOCK_BYTES", 20)
    for env in range(2):
        episodes = "".join(f"{10 * env + i},{2 + env},{i}.5\n" for i in range(4))
        (tmp_path / f"{env}.monitor.csv").write_text(
            f'#{{"t_start": {env}.0, "env_id": "E"}}\nr,l,t\n{episodes}x,1,2\n1'
        )
    episodes = read_episodes(tmp_path)
    assert episodes.steps.tolist() == [4, 6, 8, 12, 12, 16, 18, 24]
    assert episodes.scores.tolist() == [0, 10, 1, 2, 11, 3, 12, 13]
    assert (episodes.n_envs, episodes.seconds, episodes.env_id, episodes.n_broken) == (2, 4.5, "E", 4)
