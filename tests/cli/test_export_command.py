"""``sb3-ext export``: the policy of a run as a file, and the example of the docs that plays from it."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import gymnasium as gym
import onnxruntime
import pytest
from conftest import PROJECT
from report_folders import zoo_run
from stable_baselines3 import PPO

from sb3_ext import PPOExt
from sb3_ext.cli import main

TRAIN = "train -n 256 --seed 1 --eval-freq -1 --save-freq 128 --verbose 0 --num-threads 1"
HYPERPARAMS = ["-params", "n_envs:2", "n_steps:64", "batch_size:64"]


@pytest.fixture(scope="module")
def logs(tmp_path_factory):
    logs = tmp_path_factory.mktemp("export") / "logs"
    ours = ["--env", "CartPole-v1", "-f", str(logs), *HYPERPARAMS, "ext:dict(report=False)"]
    stock = ["--algo", "ppo", "--env", "Pendulum-v1", "-f", str(logs), *HYPERPARAMS, "normalize:True", "frame_stack:2"]
    for words in (stock, ours):
        assert main([*TRAIN.split(), *words]) in (0, None)
    return logs


@pytest.fixture
def run(logs):
    return str(logs / "ppo_ext/CartPole-v1_1")


@pytest.fixture
def in_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def facts_of(path):
    return onnxruntime.InferenceSession(path).get_modelmeta().custom_metadata_map


def test_a_run_is_written_under_its_name_with_its_id(logs, in_folder, capsys):
    assert main(["export", "ppo_ext/CartPole-v1_1", "-f", str(logs)]) == 0
    printed = capsys.readouterr().out
    assert "ppo_ext-CartPole-v1_1.onnx: " in printed and "observation -> action, probabilities, value" in printed
    run = json.loads((logs / "ppo_ext/CartPole-v1_1/run.json").read_text())
    facts = facts_of(in_folder / "ppo_ext-CartPole-v1_1.onnx")
    assert (facts["run_id"], facts["algorithm"], facts["steps"]) == (run["id"], "ppo_ext", "256")


def test_a_model_can_be_named_after_the_run(run, in_folder):
    assert main(["export", f"{run}@128", "-o", "agent.onnx"]) == 0
    assert facts_of("agent.onnx")["steps"] == "128"


@pytest.mark.parametrize("words", [["--format", "torchscript"], ["-o", "ppo_ext-CartPole-v1_1.pt"]])
def test_torchscript_is_written_if_the_option_or_the_suffix_says_so(run, in_folder, words):
    assert main(["export", run, *words]) == 0
    assert [path.name for path in in_folder.iterdir()] == ["ppo_ext-CartPole-v1_1.pt"]


def test_a_run_of_a_stock_algorithm_has_its_statistics_and_its_frame_stack(logs, in_folder):
    assert main(["export", str(logs / "ppo/Pendulum-v1_1"), "-o", "agent.onnx"]) == 0
    facts = facts_of("agent.onnx")
    stack = json.loads(facts["frame_stack"])["observation"]
    assert stack["n_stack"] == 2 and len(stack["empty"]) == 3 and 0 not in stack["empty"]
    assert (facts["run_id"], json.loads(facts["observation_space"])["shape"]) == ("ppo/Pendulum-v1_1", [6])


def test_the_example_of_the_docs_plays_as_predict_does_without_torch(run, in_folder):
    assert main(["export", f"{run}@final", "-o", "agent.onnx"]) == 0
    page = (PROJECT / "docs" / "export.md").read_text(encoding="utf-8")
    (example,) = (code for code in re.findall(r"^```python\n(.*?)^```", page, re.S | re.M) if "gym.make" in code)
    assert len(example.splitlines()) <= 20
    blocked = in_folder / "blocked"
    for name in ("torch", "stable_baselines3"):
        Path(blocked, name).mkdir(parents=True)
        Path(blocked, name, "__init__.py").write_text("raise ImportError('blocked')")
    result = subprocess.run(
        [sys.executable, "-c", example],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(blocked)},
    )
    assert result.returncode == 0, result.stderr
    model = PPOExt.load(f"{run}/CartPole-v1.zip", device="cpu")
    scores = [score_of(model, seed) for seed in range(5)]
    assert result.stdout == f"ppo_ext trained for 256 steps, scores: {scores}\n"


def score_of(model: PPO, seed: int) -> float:
    env = gym.make("CartPole-v1")
    observation, _ = env.reset(seed=seed)
    score, done = 0.0, False
    while not done:
        observation, reward, terminated, truncated, _ = env.step(model.predict(observation, deterministic=True)[0])
        score, done = score + float(reward), terminated or truncated
    return score


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (["nosuch"], "There is no run 'nosuch'"),
        (["@last@7"], "does not have the model @7"),
        (
            ["@last", "-o", "agent.h5"],
            "agent.h5: the name of the file must end with .onnx (onnx) or .pt (torchscript).",
        ),
        (["@last", "-o", "agent.pt", "--format", "onnx"], "agent.pt: the name of the file must end with .onnx (onnx)."),
        (["@last", "-o", "no/such/agent.onnx"], "there is no folder no/such"),
        (["@last", "-o", "folder.onnx"], "folder.onnx is a folder"),
        (["@last", "--format", "onx"], "did you mean 'onnx'?"),
    ],
)
def test_a_mistake_gets_a_short_answer_and_nothing_is_written(logs, in_folder, words, answer, capsys):
    (in_folder / "folder.onnx").mkdir()
    try:
        code = main(["export", *words, "-f", str(logs)])
    except SystemExit as error:
        code = error.code
    said = capsys.readouterr().err
    assert code == 2 and answer in said and "Traceback" not in said
    assert [path.name for path in in_folder.iterdir()] == ["folder.onnx"]


@pytest.mark.parametrize("package", ["onnx", "onnxruntime"])
def test_without_the_extra_it_says_what_to_install(run, in_folder, package, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, package, None)
    assert main(["export", run]) == 2
    assert f'Exporting to ONNX needs {package}: pip install "sb3-ext[onnx]"' in capsys.readouterr().err
    assert list(in_folder.iterdir()) == []


def test_a_run_without_a_model_says_so(in_folder, capsys):
    assert main(["export", str(zoo_run(in_folder / "run", algo="ppo"))]) == 2
    assert "It has no model at all" in capsys.readouterr().err


def test_an_environment_that_is_not_installed_is_named(run, in_folder, capsys):
    copy = shutil.copytree(run, in_folder / "copied")
    args = copy / "CartPole-v1" / "args.yml"
    args.write_text(args.read_text().replace("CartPole-v1", "NoSuchEnv-v1"))
    (copy / "CartPole-v1").rename(copy / "NoSuchEnv-v1")
    (copy / "CartPole-v1.zip").rename(copy / "NoSuchEnv-v1.zip")
    assert main(["export", str(copy), "-o", "agent.onnx"]) == 2
    said = capsys.readouterr().err
    assert "NoSuchEnv-v1 is not installed here" in said and "Traceback" not in said
