"""Scores of a report are those of the files, and are compared with the threshold."""

import numpy as np
import pytest
from report_folders import is_shown, logged, part_of, rows_of, tables_of, zoo_run

from sb3_ext.runs.report.report import make_report


def test_evaluations_are_those_of_the_file(reported_run):
    saved = np.load(reported_run / "evaluations.npz")
    report = (reported_run / "report.md").read_text()
    (table,) = tables_of(part_of(report, "Score").split("### Evaluations")[1])
    assert table[0] == ["step", "mean score", "std", "episodes", "mean length", "minus threshold"]
    assert len(table) - 1 == len(saved["timesteps"]) == 5
    for cells, step, scores, lengths in zip(
        table[1:], saved["timesteps"], saved["results"], saved["ep_lengths"], strict=True
    ):
        expected = [step, scores.mean(), scores.std(), 3, lengths.mean(), scores.mean() - 475]
        assert all(is_shown(cell, value) for cell, value in zip(cells, expected, strict=True))


def test_the_score_is_set_against_the_threshold_and_says_where_it_is_from(reported_run):
    report = (reported_run / "report.md").read_text()
    saved = np.load(reported_run / "evaluations.npz")
    (table,) = tables_of(part_of(report, "Score").split("### In training")[0])
    shown = {cells[0]: cells[1:] for cells in table[1:]}
    assert is_shown(shown["last evaluation"][0].split(" ± ")[0], saved["results"][-1].mean())
    assert shown["last evaluation"][1] == "3 episodes at step 2,000"
    assert is_shown(shown["best evaluation"][0].split(" ± ")[0], saved["results"].mean(axis=1).max())
    assert is_shown(shown["end of training"][0], logged(reported_run, "rollout/ep_rew_mean")[-1])
    assert "Threshold: 475, of the environment" in report
    assert "the threshold of 475 was not reached" in report
    assert "actions are drawn at random" in report and "Evaluations chose actions deterministically" in report


def test_the_area_under_the_curve_is_the_mean_score_over_the_steps(reported_run):
    rows = [
        (row["time/total_timesteps"], row["rollout/ep_rew_mean"])
        for row in rows_of(reported_run)
        if "rollout/ep_rew_mean" in row
    ]
    steps, scores = np.array(rows, dtype=float).T
    # The first score holds from the start
    area = np.trapezoid(scores, steps) + scores[0] * steps[0]
    (table,) = tables_of(part_of((reported_run / "report.md").read_text(), "Sample efficiency"))
    assert is_shown(table[1][1], area / steps[-1])


@pytest.mark.parametrize(("score", "said"), [(474.99, "was not reached"), (475.0, "at or above the threshold of 475")])
def test_a_score_equal_to_the_threshold_reaches_it(tmp_path, score, said):
    report = make_report(zoo_run(tmp_path / "CartPole-v1_1", np.minimum(np.linspace(20, 900, 50), score)))
    assert said in report.split("## ")[0]
    assert ("Since step 54,000 of 100,000, the score was" in report) == (score == 475.0)


def test_one_lucky_episode_does_not_reach_a_threshold(tmp_path):
    folder = tmp_path / "FrozenLake-v1_1"
    folder.mkdir()
    episodes = "1.0,5,0.1\n" + "".join(f"0.0,5,{index}\n" for index in range(1, 200))
    (folder / "0.monitor.csv").write_text(f'#{{"t_start": 1.0, "env_id": "FrozenLake-v1"}}\nr,l,t\n{episodes}')
    report = make_report(folder)
    assert "the threshold of 0.7 was not reached" in report and "never" in part_of(report, "Sample efficiency")


def test_a_score_that_only_falls_made_no_way(tmp_path):
    for name, scores, makes_way in (("rises", [1, 5, 9], True), ("falls", [9, 5, 1], False)):
        part = part_of(make_report(zoo_run(tmp_path / name, np.array(scores, dtype=float))), "Sample efficiency")
        assert ("90 % of the way" in part) == makes_way
