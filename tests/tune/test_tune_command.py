"""``sb3-ext tune`` as a user runs it, with tiny trainings."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import optuna
import pytest
import yaml

from sb3_ext.cli.main import main
from sb3_ext.tune.storage import open_storage

SPACE = "learning_rate: {low: 1e-5, high: 0.1, log: true}\nn_steps: [16, 32]\n"
SMALL = ["--timesteps", "600", "--seeds", "2", "--evaluations", "3", "--episodes", "1", "--workers", "1"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("space.yml").write_text(SPACE, encoding="utf-8")
    return tmp_path


def tune(*words, env="CartPole-v1"):
    return main(["tune", env, "--space", "space.yml", *SMALL, *words])


def trials(name):
    study = optuna.load_study(study_name=name, storage=open_storage(None, Path("logs", "tune", name)))
    kept = [
        (t.number, t.state.name, t.params, t.value, t.intermediate_values, t.user_attrs["section"])
        for t in study.get_trials(deepcopy=False)
    ]
    return study, kept


def test_a_study_from_its_start_to_its_report(folder, capsys):
    # A start that learns nothing, so that any other configuration is better
    section = {"n_timesteps": 600, "policy": "MlpPolicy", "n_envs": 8, "learning_rate": 1e-5, "n_steps": 16}
    Path("bad.yml").write_text(yaml.safe_dump({"CartPole-v1": section}), encoding="utf-8")
    words = ["--conf-file", "bad.yml", "--trials", "4", "--fresh-seeds", "3", "--study", "s"]
    assert tune(*words) == 0
    study, _ = trials("s")
    assert [t.user_attrs["proposed_by"] for t in study.trials] == ["start", "rl_zoo", "tpe", "tpe"]
    assert study.trials[0].user_attrs["section"] == section
    result = study.user_attrs["result"]
    assert len(result["start"]["scores"]) == len(result["best"]["scores"]) == 3
    text = Path("logs/tune/s/report.md").read_text(encoding="utf-8")
    assert "CartPole-v1" in text and Path("logs/tune/s/history.png").is_file()
    tuned = Path("logs/tune/s/tuned.yml")
    assert tuned.is_file() == result["is_better"]
    said = capsys.readouterr().out
    assert "against the start on 3 fresh seeds" in said
    refused = (
        (["--algo", "a2c_ext"], "not of a2c_ext"),
        (["--timesteps", "700"], "has timesteps 600"),
        (["--pruner", "none"], "has pruner median"),
        (["--storage", "sqlite:///other.db"], "has the report of a study in study.log"),
    )
    for changed, message in refused:
        assert tune(*words, *changed) == 2
        assert message in capsys.readouterr().err
    # It stays usable: with more trials, it goes on
    assert tune("--conf-file", "bad.yml", "--trials", "5", "--fresh-seeds", "0", "--study", "s") == 0
    assert len(trials("s")[1]) == 5 and "It was not compared with the start" in capsys.readouterr().out


def test_a_study_that_is_killed_continues_with_the_same_trials(folder):
    words = ["--trials", "5", "--fresh-seeds", "0", "--startup-trials", "2"]
    assert tune(*words, "--study", "whole") == 0
    command = [sys.executable, "-m", "sb3_ext", "tune", "CartPole-v1", "--space", "space.yml", *SMALL, *words]
    command += ["--study", "cut"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, start_new_session=True)
    journal = Path("logs/tune/cut/study.log")
    # Until the second trial has been evaluated
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and process.poll() is None:
        if journal.is_file() and journal.read_text(encoding="utf-8").count('"intermediate_value"') >= 8:
            break
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    assert tune(*words, "--study", "cut") == 0
    _, whole = trials("whole")
    _, cut = trials("cut")
    assert cut == whole


def test_a_study_starts_from_a_run_with_its_policy(folder):
    assert main(["train", "--env", "CartPole-v1", "-n", "300", "--eval-freq", "-1", "-params", "n_steps:64"]) == 0
    assert tune("--from", "@last", "--trials", "3", "--fresh-seeds", "0", "--study", "s") == 0
    study, _ = trials("s")
    sections = [trial.user_attrs["section"] for trial in study.trials]
    assert [trial.user_attrs["proposed_by"] for trial in study.trials][:2] == ["run", "current"]
    assert sections[0]["n_steps"] == 64 != sections[1]["n_steps"]
    assert {section["ext"]["init_from"] for section in sections} == {str(folder / "logs/ppo_ext/CartPole-v1_1")}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--algo", "ppo_exd"], "did you mean 'ppo_ext'"),
        (["--minutes", "0"], "--minutes 0 must be above 0"),
        (["--sampler", "tpi"], "did you mean 'tpe'"),
        (["--sampler", "llm"], "--sampler llm needs --llm-command"),
        (["--llm-command", "cat"], "--llm-command is for --sampler llm"),
        (["--pruner", "hyperban"], "did you mean 'hyperband'"),
        (["--storage", "mysql://x"], "is not a storage"),
        (["--quantile", "3"], "quantile=3.0 must be at most 1"),
        (["--evaluations", "1"], "evaluations=1 must be at least 2"),
        (["--fresh-seeds", "2"], "--fresh-seeds 2 must be 0"),
        (["--gym-packages", "no_such_module"], "no_such_module"),
        (["--from", "@last"], "there is no run '@last'"),
        (["--conf-file", "nope.yml"], "no file nope.yml"),
        (["--ray", "auto", "--workers", "2"], "--workers is for this machine"),
    ],
)
def test_a_mistake_is_told_and_leaves_nothing_behind(folder, capsys, words, said):
    assert tune(*words, "--trials", "1") == 2
    error = capsys.readouterr().err
    assert said in error and len(error.splitlines()) <= 3
    assert not Path("logs").exists()


def test_a_budget_of_zero_and_an_unknown_environment_are_told(folder, capsys):
    with pytest.raises(SystemExit, match="2"):
        tune("--trials", "0")
    assert "0 must be a whole number above 0" in capsys.readouterr().err
    assert tune(env="CartPol-v1") == 2
    assert "did you mean 'CartPole-v1'" in capsys.readouterr().err
    assert tune("--objective", "steps", env="Blackjack-v1") == 2
    assert re.search("Blackjack-v1 has no threshold", capsys.readouterr().err)
