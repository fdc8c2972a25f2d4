"""What a run folder says is read back: from rows, from Monitor's files, and from RL Zoo's config."""

import json

import numpy as np
import pytest
from report_folders import copied, rows_of, zoo_run
from small_training import TINY
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.monitor import load_results

from sb3_ext.runs.logs import read_progress
from sb3_ext.runs.record import read_record
from sb3_ext.runs.report.report import make_report


def test_the_csv_tells_the_same_as_the_json(reported_run, tmp_path):
    of_csv = read_progress(reported_run)
    folder = copied(reported_run, tmp_path)
    (folder / "progress.csv").unlink()
    of_json = read_progress(folder)
    assert (of_csv.file, of_json.file) == ("progress.csv", "progress.json") and of_csv.n_rows == of_json.n_rows
    assert set(of_csv.series) == set(of_json.series)
    for name, series in of_json.series.items():
        np.testing.assert_array_equal(of_csv.series[name].values, series.values)
        np.testing.assert_array_equal(of_csv.series[name].steps, series.steps)


@pytest.mark.parametrize("file", ["progress.json", "progress.csv"])
def test_half_a_line_at_the_end_is_left_out_and_told(reported_run, tmp_path, file):
    folder = copied(reported_run, tmp_path)
    for name in {"progress.json", "progress.csv"} - {file}:
        (folder / name).unlink()
    content = (folder / file).read_bytes()
    (folder / file).write_bytes(content[: content[:-1].rfind(b"\n") + 40])
    report = make_report(folder)
    n_rows = len(rows_of(reported_run))
    assert f"`{file}`: {n_rows - 1} rows, and 1 that could not be read (left out)" in report
    assert read_progress(folder).latest("time/total_timesteps") <= rows_of(reported_run)[-1]["time/total_timesteps"]


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
