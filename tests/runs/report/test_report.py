"""Reports say how a training ended and what is missing, for our algorithms and for stock ones."""

import json
import os
import sys
import warnings

import pytest
from registered_runs import facts_of
from report_folders import copied, is_shown, logged, part_of, tables_of, zoo_run
from small_training import make_model
from stable_baselines3 import DQN

from sb3_ext.callbacks.report import Report
from sb3_ext.runs.report.report import make_report, write_report


@pytest.mark.parametrize(
    ("pid", "said"),
    [(os.getpid(), "has not ended**: after"), (2**22 + 1, "was killed**: after")],
    ids=["alive", "killed"],  # workers of pytest must see the same names
)
def test_a_report_says_whether_the_process_was_killed(tmp_path, pid, said):
    facts = facts_of(state="running", pid=pid, steps=64, total_timesteps=128)
    (tmp_path / "run.json").write_text(json.dumps(facts))
    assert f"**Training {said} 64 steps of 128." in make_report(tmp_path)


def test_the_head_says_how_it_ended(reported_run):
    head = (reported_run / "report.md").read_text().split("## ")[0]
    steps = logged(reported_run, "time/total_timesteps")[-1]
    assert head.startswith("# PPOExt on CartPole-v1: CartPole-v1_1\n")
    assert f"Training finished after {steps:,} steps." in head
    assert json.loads((reported_run / "run.json").read_text())["state"] == "finished"


def test_the_last_update_is_in_the_files_too(reported_run):
    """SB3 writes before it updates."""
    assert len(logged(reported_run, "train/approx_kl")) == 16 == len(logged(reported_run, "rollout/ep_rew_mean"))


def test_alerts_come_with_counts_and_advice_and_lead_to_suggestions(reported_run):
    report = (reported_run / "report.md").read_text()
    (table,) = tables_of(part_of(report, "Alerts"))
    assert table[1:] == [["kl_high", "train/approx_kl", "4", "25 %", "256", "1,024", "lower learning_rate"]]
    assert "Alert `kl_high` (in 4 logged rows, 25 % of those it was checked in): lower learning_rate." in report


def test_plots_are_drawn_beside_it(reported_run):
    for name in ("score", "losses", "policy"):
        assert (reported_run / "plots" / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        assert f"(plots/{name}.png)" in (reported_run / "report.md").read_text()


def test_what_is_not_known_of_a_run_is_said(tmp_path):
    (tmp_path / "run.json").write_text("{}")
    report = make_report(tmp_path)
    assert "after an unknown number of steps" in report
    assert "Missing: there is no `args.yml` or `command.txt`" in report
    known = make_report(zoo_run(tmp_path / "ppo_ext" / "CartPole-v1_1"))
    assert "unknown number of steps" not in known and "Missing: there is no `args.yml`" not in known


def test_off_policy_algorithms_have_reports_too(tmp_path):
    model = make_model(tmp_path, DQN, learning_starts=50, buffer_size=500, seed=0, device="cpu")
    model.learn(600, log_interval=1, callback=Report(plots=False))
    report = (tmp_path / "report.md").read_text()
    assert "### rollout/exploration_rate" in report and "# DQN on CartPole-v1" in report
    assert is_shown(tables_of(part_of(report, "Speed"))[0][1][1], 600)


def test_a_failure_in_plotting_is_a_warning(reported_run, tmp_path, monkeypatch):
    folder = copied(reported_run, tmp_path)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    monkeypatch.delitem(sys.modules, "sb3_ext.runs.report.plots", raising=False)
    (folder / "report.md").unlink()
    with pytest.warns(UserWarning, match="plots of .* could not be drawn"):
        write_report(folder)
    assert (folder / "report.md").is_file()


def test_what_cannot_be_read_is_told_and_the_rest_is_there(reported_run, tmp_path):
    folder = copied(reported_run, tmp_path)
    (folder / "evaluations.npz").write_bytes(b"no zip")
    (folder / "alerts.json").write_text("[{")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        report = make_report(folder)
    assert "Problem: evaluations.npz can't be read" in report and "Problem: alerts.json can't be read" in report
    # The rows have the evaluations too
    assert "### Evaluations (`progress.csv`)" in report
