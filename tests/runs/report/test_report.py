"""Reports say what the files of a run say: of real trainings, of stock ones, and of those that were cut off."""

import argparse
import json
import math
import os
import re
import shlex
import shutil
import sys
import warnings
from collections import OrderedDict

import numpy as np
import pytest
import yaml
from small_training import TINY, make_model
from stable_baselines3 import DQN, PPO
from stable_baselines3.common.callbacks import BaseCallback, EvalCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.monitor import load_results

from sb3_ext.callbacks.report import Report
from sb3_ext.cli import report as report_command
from sb3_ext.runs.progress import read_progress
from sb3_ext.runs.record import read_record
from sb3_ext.runs.report.commands import train_command
from sb3_ext.runs.report.report import make_report, write_report


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A training with all that belongs to it: rows, evaluations, Monitor's files, alerts, and the report."""
    folder = tmp_path_factory.mktemp("runs") / "CartPole-v1_1"
    folder.mkdir()
    alerts = [
        {"id": "kl_high", "metric": "train/approx_kl", "count": 4, "share": 0.25, "first_step": 256, "last_step": 1024}
        | {"advice": "lower learning_rate"},
        {
            "id": "silent",
            "metric": "train/loss",
            "count": 0,
            "share": 0.0,
            "first_step": 0,
            "last_step": 0,
            "advice": "",
        },
    ]
    (folder / "alerts.json").write_text(json.dumps(alerts))
    evaluation = EvalCallback(
        make_vec_env("CartPole-v1", seed=1), n_eval_episodes=3, eval_freq=200, log_path=str(folder), verbose=0
    )
    model = make_model(folder, **TINY)
    model.learn(2000, callback=[evaluation, Report(folder, charts=["train/entropy_loss"])])
    return folder


def copied(folder, tmp_path):
    return shutil.copytree(folder, tmp_path / folder.name)


def rows_of(folder):
    return [json.loads(line) for line in (folder / "progress.json").read_text().splitlines()]


def logged(folder, name):
    return [row[name] for row in rows_of(folder) if name in row]


def part_of(report, title, level="## "):
    return re.split(rf"^{level}", report.split(f"{level}{title}\n", 1)[1], maxsplit=1, flags=re.MULTILINE)[0]


def cells_of(line):
    return [cell.strip().strip("`") for cell in line.strip().strip("|").split("|")]


def tables_of(text):
    """All tables: a list of their lines each."""
    found = re.findall(r"(?:^\|.*\|\n?)+", text, flags=re.MULTILINE)
    return [[cells_of(line) for line in table.strip().split("\n") if not line.startswith("| ---")] for table in found]


def is_shown(cell, value):
    """Whether a cell is the value, with four digits."""
    if not math.isfinite(value):
        return cell.lower() == str(value).lower()
    return math.isclose(float(cell.replace(",", "")), value, rel_tol=6e-4, abs_tol=1e-12)


def test_every_number_of_the_table_with_all_metrics_is_that_of_the_rows(trained):
    (table,) = tables_of(part_of((trained / "report.md").read_text(), "All numbers"))
    shown = {cells[0]: cells[1:] for cells in table[1:]}
    names = {name for row in rows_of(trained) for name in row}
    assert set(shown) == names and "train/approx_kl" in names
    for name in names:
        values = logged(trained, name)
        first, last, smallest, largest, count, _ = shown[name]
        assert is_shown(first, values[0]) and is_shown(last, values[-1]), name
        finite = [value for value in values if math.isfinite(value)]
        assert is_shown(smallest, min(finite)) and is_shown(largest, max(finite)), name
        assert int(count) == len(values)


def test_sampled_points_below_the_charts_are_rows_of_the_training(trained):
    curves = part_of((trained / "report.md").read_text(), "Curves")
    tables = [table for table in tables_of(curves) if table[0][0] == "step"]
    assert {"train/explained_variance", "train/entropy_loss", "time/fps"} <= {table[1][0] for table in tables}
    for steps, (name, *values) in tables:
        rows = [(row["time/total_timesteps"], row[name]) for row in rows_of(trained) if name in row]
        assert min(5, len(rows)) <= len(values) <= 10
        for step, value in zip(steps[1:], values, strict=True):
            assert any(is_shown(step, at) and is_shown(value, number) for at, number in rows), (name, step, value)


def test_evaluations_are_those_of_the_file(trained):
    saved = np.load(trained / "evaluations.npz")
    report = (trained / "report.md").read_text()
    (table,) = tables_of(part_of(report, "Score").split("### Evaluations")[1])
    assert table[0] == ["step", "mean score", "std", "episodes", "mean length", "minus threshold"]
    assert len(table) - 1 == len(saved["timesteps"]) == 5
    for cells, step, scores, lengths in zip(
        table[1:], saved["timesteps"], saved["results"], saved["ep_lengths"], strict=True
    ):
        expected = [step, scores.mean(), scores.std(), 3, lengths.mean(), scores.mean() - 475]
        assert all(is_shown(cell, value) for cell, value in zip(cells, expected, strict=True))


def test_the_score_is_set_against_the_threshold_and_says_where_it_is_from(trained):
    report = (trained / "report.md").read_text()
    saved = np.load(trained / "evaluations.npz")
    (table,) = tables_of(part_of(report, "Score").split("### In training")[0])
    shown = {cells[0]: cells[1:] for cells in table[1:]}
    assert is_shown(shown["last evaluation"][0].split(" ± ")[0], saved["results"][-1].mean())
    assert shown["last evaluation"][1] == "3 episodes at step 2,000"
    assert is_shown(shown["best evaluation"][0].split(" ± ")[0], saved["results"].mean(axis=1).max())
    assert is_shown(shown["end of training"][0], logged(trained, "rollout/ep_rew_mean")[-1])
    assert "Threshold: 475, of the environment" in report
    assert "the threshold of 475 was not reached" in report
    assert "actions are drawn at random" in report and "Evaluations chose actions deterministically" in report


def test_the_head_says_how_it_ended(trained):
    head = (trained / "report.md").read_text().split("## ")[0]
    steps = logged(trained, "time/total_timesteps")[-1]
    assert head.startswith("# PPOExt on CartPole-v1: CartPole-v1_1\n")
    assert f"Training finished after {steps:,} steps." in head
    assert json.loads((trained / "run.json").read_text())["state"] == "finished"


def test_the_last_update_is_in_the_files_too(trained):
    """SB3 writes before it updates."""
    assert len(logged(trained, "train/approx_kl")) == 16 == len(logged(trained, "rollout/ep_rew_mean"))


def test_alerts_come_with_counts_and_advice_and_lead_to_suggestions(trained):
    report = (trained / "report.md").read_text()
    (table,) = tables_of(part_of(report, "Alerts"))
    assert table[1:] == [["kl_high", "train/approx_kl", "4", "25 %", "256", "1,024", "lower learning_rate"]]
    assert "Alert `kl_high` (in 4 rows, 25 % of those it was checked in): lower learning_rate." in report


def test_the_area_under_the_curve_is_the_mean_score_over_the_steps(trained):
    rows = [
        (row["time/total_timesteps"], row["rollout/ep_rew_mean"])
        for row in rows_of(trained)
        if "rollout/ep_rew_mean" in row
    ]
    steps, scores = np.array(rows, dtype=float).T
    # The first score holds from the start
    area = np.trapezoid(scores, steps) + scores[0] * steps[0]
    (table,) = tables_of(part_of((trained / "report.md").read_text(), "Sample efficiency"))
    assert is_shown(table[1][1], area / steps[-1])


def test_plots_are_drawn_beside_it(trained):
    for name in ("score", "losses", "policy"):
        assert (trained / "plots" / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        assert f"(plots/{name}.png)" in (trained / "report.md").read_text()


def test_the_csv_tells_the_same_as_the_json(trained, tmp_path):
    of_csv = read_progress(trained)
    folder = copied(trained, tmp_path)
    (folder / "progress.csv").unlink()
    of_json = read_progress(folder)
    assert (of_csv.file, of_json.file) == ("progress.csv", "progress.json") and of_csv.n_rows == of_json.n_rows
    assert set(of_csv.series) == set(of_json.series)
    for name, series in of_json.series.items():
        np.testing.assert_array_equal(of_csv.series[name].values, series.values)
        np.testing.assert_array_equal(of_csv.series[name].steps, series.steps)


@pytest.mark.parametrize("file", ["progress.json", "progress.csv"])
def test_half_a_line_at_the_end_is_left_out_and_told(trained, tmp_path, file):
    folder = copied(trained, tmp_path)
    for name in {"progress.json", "progress.csv"} - {file}:
        (folder / name).unlink()
    content = (folder / file).read_bytes()
    (folder / file).write_bytes(content[: content[:-1].rfind(b"\n") + 40])
    report = make_report(folder)
    n_rows = len(rows_of(trained))
    assert f"`{file}`: {n_rows - 1} rows, and 1 that could not be read (left out)" in report
    assert read_progress(folder).latest("time/total_timesteps") <= rows_of(trained)[-1]["time/total_timesteps"]


def test_monitor_files_alone_give_the_score(tmp_path):
    folder = tmp_path / "ppo" / "CartPole-v1_3"
    folder.mkdir(parents=True)
    model = PPO("MlpPolicy", make_vec_env("CartPole-v1", 2, seed=0, monitor_dir=str(folder)), **TINY)
    seen = []

    class Watch(BaseCallback):
        def _on_step(self):
            seen.extend(
                (self.num_timesteps, info["episode"]["r"]) for info in self.locals["infos"] if "episode" in info
            )
            return True

    model.learn(1500, callback=Watch())
    with (folder / "0.monitor.csv").open("a") as file:
        file.write("1")
    run = read_record(folder)
    np.testing.assert_array_equal(run.episodes.steps, [step for step, _ in seen])
    scores = [score for _, score in seen]
    expected = [np.mean(scores[max(0, end - 100) : end]) for end in range(1, len(scores) + 1)]
    np.testing.assert_allclose(run.score.values, expected)
    assert run.steps == seen[-1][0]
    assert run.seconds == max(load_results(str(folder))["t"].dropna())
    report = make_report(folder)
    assert report.startswith("# Training on CartPole-v1: CartPole-v1_3\n")
    for missing in ("`run.json` is missing", "no `progress.json`", "no `evaluations.npz`", "no `alerts.json`"):
        assert missing in report
    assert f"2 Monitor files: {len(seen)} episodes, and 1 that could not be read" in report
    assert "There was no evaluation" in report


def zoo_run(folder, scores=None, n_timesteps=100_000, **args):
    """A run folder as RL Zoo makes it, with a curve of the score."""
    params = folder / "CartPole-v1"
    params.mkdir(parents=True)
    written = {"algo": "ppo_ext", "env": "CartPole-v1", "seed": 7, "n_timesteps": -1, "log_folder": "logs", **args}
    (params / "args.yml").write_text(yaml.dump(OrderedDict(written)))
    (params / "config.yml").write_text(
        yaml.dump(OrderedDict(n_timesteps=n_timesteps, policy="MlpPolicy", shape=(1, 2)))
    )
    (params / "command.txt").write_text("python -m rl_zoo3.train --algo ppo_ext --env CartPole-v1")
    scores = np.ones(50) if scores is None else scores
    steps = np.linspace(n_timesteps / len(scores), n_timesteps, len(scores)).astype(int)
    rows = [
        {"time/total_timesteps": int(step), "time/episodes": 100 + index, "rollout/ep_rew_mean": float(score)}
        for index, (step, score) in enumerate(zip(steps, scores, strict=True))
    ]
    (folder / "progress.json").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return folder


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


@pytest.mark.parametrize("n_scores", [3, 50])
def test_a_training_that_stopped_at_a_plateau_is_not_told_to_train_longer(tmp_path, n_scores):
    folder = zoo_run(tmp_path / "ppo_ext" / "CartPole-v1_1", np.linspace(20, 300, n_scores))
    (folder / "run.json").write_text(json.dumps({"state": "finished", "stop_reason": "no improvement"}))
    part = part_of(make_report(folder), "What to try next")
    assert "raise `patience`" in part and "Train longer" not in part


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
    folder = zoo_run(tmp_path / "ppo_ext" / "CartPole-v1_1", np.linspace(20, 300, 50))
    (folder / "run.json").write_text(json.dumps({"state": "running", "steps": 40_000, "total_timesteps": 100_000}))
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


def test_with_few_episodes_only_the_mean_of_all_is_a_settled_score(tmp_path):
    def settled(counts):
        rows = [
            {"time/total_timesteps": step, "time/episodes": count, "rollout/ep_rew_mean": float(step)}
            for step, count in enumerate(counts)
        ]
        (tmp_path / "progress.json").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
        return read_record(tmp_path).settled_score.values.tolist()

    assert settled([5, 40, 80]) == [2.0]
    assert settled([5, 99, 100, 150]) == [2.0, 3.0]


def test_a_new_training_in_the_same_folder_hides_the_one_before(tmp_path):
    rows = [{"time/total_timesteps": step, "time/time_elapsed": step / 10, "train/loss": 1.0} for step in (10, 20, 30)]
    rows += [{"time/total_timesteps": step, "time/time_elapsed": step / 10, "train/loss": 2.0} for step in (10, 20)]
    (tmp_path / "progress.json").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    progress = read_progress(tmp_path)
    assert progress.n_rows == 2 and progress.n_earlier == 3
    assert list(progress.series["train/loss"].values) == [2.0, 2.0]


def test_a_late_evaluation_stands_at_the_step_of_its_weights(tmp_path):
    rows = [{"time/total_timesteps": 100}, {"time/total_timesteps": 200, "eval/mean_reward": 5.0, "eval/step": 100}]
    (tmp_path / "progress.json").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    assert [evaluation.step for evaluation in read_record(tmp_path).evaluations] == [100]


def test_the_command_is_whole_again(tmp_path):
    hyperparams = {"policy_kwargs": {"net_arch": [8, 8]}, "policy": "MlpPolicy", "learning_rate": 0.01}
    run = read_record(zoo_run(tmp_path / "ppo_ext" / "CartPole-v1_1", hyperparams=hyperparams, gym_packages=["a", "b"]))
    words = shlex.split(train_command(run))
    assert words[:9] == shlex.split("python -m rl_zoo3.train --algo ppo_ext --env CartPole-v1 --seed 7")[:9]
    given = words[words.index("--hyperparams") + 1 : words.index("--gym-packages")]
    # As RL Zoo reads it
    assert {entry.split(":")[0]: eval(":".join(entry.split(":")[1:])) for entry in given} == hyperparams
    assert words[words.index("--gym-packages") + 1 :] == ["a", "b"]


def test_config_and_commands_are_there(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder = zoo_run(tmp_path / "logs" / "ppo_ext" / "CartPole-v1_12")
    report = make_report(folder)
    watch = "python -m rl_zoo3.enjoy --algo ppo_ext --env CartPole-v1 -f logs --exp-id 12"
    assert f"{watch}  # watch the agent of the end" in report and "--load-best" not in report
    (folder / "best_model.zip").touch()
    assert f"{watch} --load-best  # watch the best one by evaluation" in make_report(folder)
    assert "\npython -m rl_zoo3.train --algo ppo_ext --env CartPole-v1 --seed 7\n" in report
    (written,) = re.findall(r"```yaml\n(.*?)```", report, flags=re.DOTALL)
    assert yaml.safe_load(written) == {"n_timesteps": 100_000, "policy": "MlpPolicy", "shape": [1, 2]}


def test_a_config_cannot_run_code(tmp_path):
    folder = zoo_run(tmp_path / "CartPole-v1_1")
    (folder / "CartPole-v1" / "config.yml").write_text(f"!!python/object/apply:os.system ['touch {tmp_path}/ran']\n")
    make_report(folder)
    assert not (tmp_path / "ran").exists()


def test_objects_in_a_config_are_shown_as_what_they_were_made_from(tmp_path):
    folder = zoo_run(tmp_path / "CartPole-v1_1")
    objects = """
    of_mapping: !!python/object:my.Thing {size: 3, parts: [a, b]}
    of_sequence: !!python/object/apply:my.make [1, {x: 2}]
    name: !!python/name:torch.nn.ReLU ''
    """
    (folder / "CartPole-v1" / "config.yml").write_text(objects)
    expected = {"of_mapping": {"size": 3, "parts": ["a", "b"]}, "of_sequence": [1, {"x": 2}], "name": "torch.nn.ReLU"}
    assert read_record(folder).config == expected


def test_what_is_not_known_of_a_run_is_said(tmp_path):
    (tmp_path / "run.json").write_text("{}")
    report = make_report(tmp_path)
    assert "after an unknown number of steps" in report
    assert "Missing: there is no `args.yml` or `command.txt`" in report
    known = make_report(zoo_run(tmp_path / "ppo_ext" / "CartPole-v1_1"))
    assert "unknown number of steps" not in known and "Missing: there is no `args.yml`" not in known


def test_a_score_that_only_falls_made_no_way(tmp_path):
    for name, scores, makes_way in (("rises", [1, 5, 9], True), ("falls", [9, 5, 1], False)):
        part = part_of(make_report(zoo_run(tmp_path / name, np.array(scores, dtype=float))), "Sample efficiency")
        assert ("90 % of the way" in part) == makes_way


def test_off_policy_algorithms_have_reports_too(tmp_path):
    model = make_model(tmp_path, DQN, learning_starts=50, buffer_size=500, seed=0, device="cpu")
    model.learn(600, log_interval=1, callback=Report(plots=False))
    report = (tmp_path / "report.md").read_text()
    assert "### rollout/exploration_rate" in report and "# DQN on CartPole-v1" in report
    assert is_shown(tables_of(part_of(report, "Speed"))[0][1][1], 600)


def test_a_failure_in_plotting_is_a_warning(trained, tmp_path, monkeypatch):
    folder = copied(trained, tmp_path)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    monkeypatch.delitem(sys.modules, "sb3_ext.runs.report.plots", raising=False)
    (folder / "report.md").unlink()
    with pytest.warns(UserWarning, match="plots of .* could not be drawn"):
        write_report(folder)
    assert (folder / "report.md").is_file()


def command(*words):
    parser = argparse.ArgumentParser()
    report_command.add_arguments(parser)
    return report_command.run(parser.parse_args([*map(str, words)]))


def test_the_command_writes_it_later(trained, tmp_path, capsys):
    folder = copied(trained, tmp_path)
    before = (folder / "report.md").read_text()
    shutil.rmtree(folder / "plots")
    (folder / "report.md").unlink()
    assert command(folder) == 0
    assert (folder / "report.md").read_text() == before
    assert (folder / "plots" / "score.png").is_file()
    assert capsys.readouterr().out.strip() == str(folder / "report.md")


def test_the_command_prints_it_and_writes_nothing(trained, tmp_path, capsys):
    folder = copied(trained, tmp_path)
    (folder / "report.md").unlink()
    assert command(folder, "--print", "--threshold", "20") == 0
    said = capsys.readouterr().out
    assert "threshold of 20" in said and "┤" in said
    assert not (folder / "report.md").exists()


@pytest.mark.parametrize(
    ("mistake", "said"),
    [
        ("logs/ppo_ext/CartPol-v1_1", "did you mean '{}/logs/ppo_ext/CartPole-v1_1'?"),
        ("logs/pp_ext/CartPole-v1_1", "did you mean '{}/logs/ppo_ext/CartPole-v1_1'?"),
        ("logs", "Runs in it: {0}/logs/ppo_ext/CartPole-v1_1, {0}/logs/ppo_ext/MountainCar-v0_1"),
        ("empty", "has no files of a training"),
    ],
)
def test_a_folder_that_is_no_run_is_told_with_the_nearest_that_is(tmp_path, mistake, said):
    zoo_run(tmp_path / "logs" / "ppo_ext" / "CartPole-v1_1")
    zoo_run(tmp_path / "logs" / "ppo_ext" / "MountainCar-v0_1")
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match=re.escape(said.format(tmp_path))):
        command(tmp_path / mistake)


def test_what_cannot_be_read_is_told_and_the_rest_is_there(trained, tmp_path):
    folder = copied(trained, tmp_path)
    (folder / "evaluations.npz").write_bytes(b"no zip")
    (folder / "alerts.json").write_text("[{")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        report = make_report(folder)
    assert "Problem: evaluations.npz can't be read" in report and "Problem: alerts.json can't be read" in report
    # The rows have the evaluations too
    assert "### Evaluations (`progress.csv`)" in report
