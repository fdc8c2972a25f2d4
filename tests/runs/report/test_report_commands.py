"""Commands of a report can be copied: to train again, to watch, and ``sb3-ext report`` itself."""

import re
import shlex
import shutil

import pytest
import yaml
from report_folders import copied, zoo_run

from sb3_ext.cli.main import main
from sb3_ext.runs.record import read_record
from sb3_ext.runs.report.commands import train_command
from sb3_ext.runs.report.report import make_report


def report_command(*words):
    return main(["report", *map(str, words)])


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


def test_the_video_of_the_best_model_is_linked(tmp_path):
    folder = zoo_run(tmp_path / "ppo_ext" / "CartPole-v1_1")
    assert "Video" not in make_report(folder)
    (folder / "videos").mkdir()
    (folder / "videos" / "best-step-100.mp4").touch()
    (folder / "best_model.zip").touch()
    assert "Video of the best model: [best-step-100.mp4](videos/best-step-100.mp4)" in make_report(folder)


def test_the_command_writes_it_later(reported_run, tmp_path, capsys):
    folder = copied(reported_run, tmp_path)
    before = (folder / "report.md").read_text()
    shutil.rmtree(folder / "plots")
    (folder / "report.md").unlink()
    assert report_command(folder) == 0
    assert (folder / "report.md").read_text() == before
    assert (folder / "plots" / "score.png").is_file()
    assert capsys.readouterr().out.strip() == str(folder / "report.md")


def test_the_command_prints_it_and_writes_nothing(reported_run, tmp_path, capsys):
    folder = copied(reported_run, tmp_path)
    (folder / "report.md").unlink()
    assert report_command(folder, "--print", "--threshold", "20") == 0
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
def test_a_folder_that_is_no_run_is_told_with_the_nearest_that_is(tmp_path, capsys, mistake, said):
    zoo_run(tmp_path / "logs" / "ppo_ext" / "CartPole-v1_1")
    zoo_run(tmp_path / "logs" / "ppo_ext" / "MountainCar-v0_1")
    (tmp_path / "empty").mkdir()
    assert report_command(tmp_path / mistake) == 2
    assert said.format(tmp_path) in capsys.readouterr().err
