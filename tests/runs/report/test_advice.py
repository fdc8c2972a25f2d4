"""What to try next follows from the curve, the evaluations and the end of a training."""

import json
import math
import os
import re
from collections import OrderedDict

import numpy as np
import pytest
import yaml
from report_folders import part_of, tables_of, zoo_run

from sb3_ext.runs.report.report import make_report


@pytest.mark.parametrize(
    ("scores", "said"),
    [
        (np.linspace(20, 300, 50), ["still rising", "-i ", "-n 100000", "-n 200000"]),
        (np.minimum(np.linspace(20, 900, 50), 490), ["Since step 54,000 of 100,000, the score was", "-n 67500"]),
        (np.minimum(np.linspace(20, 900, 50), 200), ["flat at the end", "-optimize"]),
        (np.concatenate([np.linspace(20, 400, 30), np.linspace(400, 50, 20)]), ["falling at the end"]),
        (
            np.concatenate([np.linspace(20, 490, 40), np.linspace(490, 50, 10)]),
            ["fell below the threshold again, to 50"],
        ),
        (np.array([20.0, 30.0, 40.0]), ["too few scores to see a trend", "-n 200000"]),
    ],
    ids=["rising", "early", "flat", "falling", "lost", "short"],
)
def test_what_to_try_next_follows_from_the_curve(tmp_path, scores, said):
    part = part_of(make_report(zoo_run(tmp_path / "ppo_ext" / "CartPole-v1_1", scores)), "What to try next")
    assert all(words in part for words in said), part


@pytest.mark.parametrize(("solved_from", "suggests_less"), [(25, True), (40, False)])
def test_fewer_steps_are_suggested_only_if_the_threshold_was_reached_early(tmp_path, solved_from, suggests_less):
    scores = np.where(np.arange(50) < solved_from, np.linspace(20, 400, 50), 490)
    part = part_of(make_report(zoo_run(tmp_path / "ppo_ext" / "CartPole-v1_1", scores)), "What to try next")
    assert ("Fewer steps" in part) == suggests_less, part


@pytest.mark.parametrize("n_scores", [3, 50])
def test_a_training_that_stopped_at_a_plateau_is_not_told_to_train_longer(tmp_path, n_scores):
    folder = zoo_run(tmp_path / "ppo_ext" / "CartPole-v1_1", np.linspace(20, 300, n_scores))
    reason = {"stop_reason": "no improvement", "stop_advice": "Raise `patience`."}
    (folder / "run.json").write_text(json.dumps({"state": "finished", **reason}))
    part = part_of(make_report(folder), "What to try next")
    assert "Raise `patience`." in part and "Train longer" not in part


@pytest.mark.parametrize("has_best_model", [False, True])
@pytest.mark.parametrize("top", [400, 490], ids=["falling", "lost"])
def test_the_best_model_is_recommended_only_where_there_is_one(tmp_path, top, has_best_model):
    scores = np.concatenate([np.linspace(20, top, 30), np.linspace(top, 50, 20)])
    folder = zoo_run(tmp_path / "ppo_ext" / "CartPole-v1_1", scores)
    if has_best_model:
        (folder / "best_model.zip").touch()
    part = part_of(make_report(folder), "What to try next")
    assert bool(re.search("(Play|Keep) the best model", part)) == has_best_model, part


@pytest.mark.parametrize(("rate", "is_suggested"), [(0.001, True), ("lin_0.001", False), ({"start": 0.001}, False)])
def test_a_decreasing_learning_rate_is_suggested_only_where_there_is_none(tmp_path, rate, is_suggested):
    folder = zoo_run(
        tmp_path / "ppo_ext" / "CartPole-v1_1", np.concatenate([np.linspace(20, 400, 30), np.linspace(400, 50, 20)])
    )
    with (folder / "CartPole-v1" / "config.yml").open("w", encoding="utf-8") as config:
        yaml.dump(OrderedDict(n_timesteps=100_000, policy="MlpPolicy", learning_rate=rate), config)
    part = part_of(make_report(folder), "What to try next")
    assert "Lower `learning_rate`" in part
    assert ("let it decrease" in part) == is_suggested


def test_a_training_that_ended_before_its_first_evaluation_is_told_how_to_get_one(tmp_path):
    folder = zoo_run(tmp_path / "ppo_ext" / "CartPole-v1_1", n_timesteps=3_000)
    (folder / "run.json").write_text(json.dumps({"state": "finished", "evaluates": True, "steps": 3_000}))
    assert "`--eval-freq 600 --eval-episodes 20`" in part_of(make_report(folder), "What to try next")


@pytest.mark.parametrize(
    ("models", "said"),
    [
        ((), "a power cut), start it again."),
        (("best_model", "last_model"), "-i {folder}/last_model.zip"),
        (("last_model", "rl_model_40000_steps"), "-i {folder}/rl_model_40000_steps.zip"),
    ],
)
def test_a_training_that_was_killed_is_told_and_how_to_go_on(tmp_path, models, said):
    folder = zoo_run(tmp_path / "ppo_ext" / "CartPole-v1_1", np.linspace(20, 300, 50), n_timesteps=40_000)
    (folder / "run.json").write_text(json.dumps({"state": "running", "steps": 39_000, "total_timesteps": 100_000}))
    for age, name in enumerate(models):
        (folder / f"{name}.zip").touch()
        os.utime(folder / f"{name}.zip", (age, age))
    part = part_of(make_report(folder), "What to try next")
    assert part.startswith("1. It has not ended. If its process was killed")
    assert said.format(folder=folder) in part and ("-n 60000" in part) == bool(models)
    assert "still rising" not in part


def test_nan_is_told_with_the_step_where_it_began(tmp_path):
    folder = zoo_run(tmp_path / "CartPole-v1_1", np.linspace(20, 300, 50))
    with (folder / "progress.json").open("a") as file:
        for step in (110_000, 120_000):
            file.write(json.dumps({"time/total_timesteps": step, "train/loss": math.nan, "train/std": math.inf}) + "\n")
    report = make_report(folder)
    assert "`train/loss` (2 values), `train/std` (2 values); the first was `train/loss` at step 110,000" in report
    (table,) = tables_of(part_of(report, "All numbers"))
    assert ["train/loss", "NaN", "NaN", "", "", "2", "!!"] in table
