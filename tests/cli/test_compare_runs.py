"""``sb3-ext runs --compare``: a table per environment, with what the seeds can tell."""

import json

import numpy as np
import pytest
from report_folders import zoo_run

from sb3_ext.cli import main


@pytest.fixture
def logs(tmp_path):
    """Six seeds of an algorithm, and two of a better one."""
    for algo, level, n_seeds in (("ppo", 100, 6), ("ppo_ext", 500, 2)):
        for seed in range(n_seeds):
            zoo_run(tmp_path / algo / f"CartPole-v1_{seed + 1}", np.linspace(0, level + seed, 20), algo=algo, seed=seed)
    return tmp_path


def compare(logs, capsys, *words):
    assert main(["runs", "-f", str(logs), *words]) == 0
    return capsys.readouterr().out


def test_each_group_has_a_line_with_its_score_and_its_seeds(logs, capsys):
    printed = compare(logs, capsys, "--compare")
    (line,) = [line for line in printed.splitlines() if line.startswith("ppo ")]
    assert line.split()[1] == "6" and "102.5 [" in line
    assert "CartPole-v1 (end of training, with exploration; threshold 475)" in printed


def test_too_few_seeds_are_told(logs, capsys):
    printed = compare(logs, capsys, "--compare")
    assert "too few seeds to tell" in printed and "fewer than 5 seeds: 1 of 2" in printed


def test_runs_can_be_named_and_the_first_is_the_baseline(logs, capsys):
    named = ["ppo_ext/CartPole-v1_1", "ppo_ext/CartPole-v1_2", "ppo/CartPole-v1_1"]
    ours, theirs = json.loads(compare(logs, capsys, "--json", "--compare", *named))
    assert (ours["group"], ours["verdict"]) == ("ppo_ext", "baseline")
    assert len(ours["runs"]) == 2 and theirs["probability_of_improvement"]["value"] == 0.0


def test_filters_choose_what_is_compared(logs, capsys):
    (only,) = json.loads(compare(logs, capsys, "--compare", "--algo", "ppo", "--json"))
    assert only["group"] == "ppo" and only["final_score"]["n_seeds"] == 6


def test_a_run_without_a_score_has_none_in_json(logs, capsys):
    (logs / "ppo_ext/CartPole-v1_2/progress.json").write_text("")
    (ours,) = json.loads(compare(logs, capsys, "--compare", "--algo", "ppo_ext", "--json"))
    assert None in ours["final_scores"] and ours["final_score"]["n_seeds"] == 1
