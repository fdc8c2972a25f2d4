"""``sb3-ext train``: what it adds to RL Zoo's ``train``."""

import json
import shutil

import pytest
import torch as th
from zoo_in_process import train

from sb3_ext import PPOExt
from sb3_ext.cli import main
from sb3_ext.common.usage_error import UsageError
from sb3_ext.runs.record import read_record
from sb3_ext.zoo.train_flags import fold_ext

OPTIONS = "--env CartPole-v1 --seed 3 -n 256 --eval-freq -1 --verbose 0 "
OPTIONS += "-params n_envs:2 n_steps:64 batch_size:64 ext:dict(report=False)"


@pytest.fixture(scope="module")
def two_trainings(tmp_path_factory):
    """Of the same options, by RL Zoo's command and by ours."""
    folder = tmp_path_factory.mktemp("trainings")
    train(f"--algo ppo_ext {OPTIONS} -f theirs", folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert main(["train", *OPTIONS.split(), "-f", "ours", "--num-threads", "1"]) == 0
    return folder


def test_it_trains_to_the_parameters_of_rl_zoos_command(two_trainings):
    theirs, ours = (
        PPOExt.load(two_trainings / f"{name}/ppo_ext/CartPole-v1_1/CartPole-v1.zip").get_parameters()["policy"]
        for name in ("theirs", "ours")
    )
    assert all(th.equal(theirs[name], ours[name]) for name in theirs)


def test_the_run_has_the_same_arguments(two_trainings):
    texts = [
        (two_trainings / f"{name}/ppo_ext/CartPole-v1_1/CartPole-v1/args.yml").read_text().replace(name, "logs")
        for name in ("theirs", "ours")
    ]
    assert texts[0] == texts[1]


def test_the_run_folder_says_how_it_ended(two_trainings):
    assert json.loads((two_trainings / "ours/ppo_ext/CartPole-v1_1/run.json").read_text())["steps"] == 256


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        ("--algo ppo_exd", "did you mean 'ppo_ext'?"),
        ("--eval-frq 5", "did you mean '--eval-freq'?"),
        ("-params n_steps", "'n_steps' must be a key and a value"),
    ],
)
def test_a_mistyped_option_is_answered_in_two_lines(words, answer, capsys):
    with pytest.raises(SystemExit) as end:
        main(["train", *words.split()])
    said = capsys.readouterr().err
    assert end.value.code == 2 and answer in said and len(said.splitlines()) == 2
    assert said.startswith("sb3-ext train: ")


def test_an_error_in_the_training_keeps_its_type(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "broken_envs.py").write_text("1 / 0")
    with pytest.raises(ZeroDivisionError):
        main(["train", "--gym-packages", "broken_envs"])


@pytest.mark.parametrize(
    "words",
    [
        *("--env CartPol-v1", "-params n_step:4", "--conf-file nosuch.yml", "--init-from no"),
        *("--algo ppo --env CartPol-v1", "--algo ppo -params n_step:4", "--algo dqn -params gamma:-1"),
    ],
)
def test_a_mistake_has_a_short_answer_and_leaves_no_run(words, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["train", *words.split()]) == 2
    said = capsys.readouterr().err
    assert said and "Traceback" not in said and len(said.splitlines()) <= 3
    assert not list(tmp_path.rglob("CartPole-v1_*"))


@pytest.mark.parametrize(
    ("section", "folded"),
    [
        ({"ext.threshold": 5}, {"ext": {"threshold": 5}}),
        ({"ext": {"axis": "vec_steps"}, "ext.threshold": 5}, {"ext": {"axis": "vec_steps", "threshold": 5}}),
        ({"ext": {"evaluation": True}, "ext.evaluation.every": 5}, {"ext": {"evaluation": {"every": 5}}}),
        ({"ext": None, "ext.alerts": False}, {"ext": {"alerts": False}}),
        ({"gamma": 0.9}, {"gamma": 0.9}),
    ],
)
def test_one_option_of_ext_can_be_set(section, folded):
    assert fold_ext(section) == folded


def test_the_file_keeps_its_options():
    of_file = {"evaluation": {"every": 1}}
    assert fold_ext({"ext": of_file, "ext.evaluation.every": 2}) == {"ext": {"evaluation": {"every": 2}}}
    assert of_file == {"evaluation": {"every": 1}}


def test_an_option_of_the_command_line_is_used_and_saved(tmp_path):
    train(f"--algo ppo_ext -f logs {OPTIONS} ext.threshold:7", tmp_path)
    folder = tmp_path / "logs/ppo_ext/CartPole-v1_1"
    assert json.loads((folder / "run.json").read_text())["threshold"] == 7
    assert read_record(folder).config["ext"] == {"report": False, "threshold": 7}


def test_a_mistake_in_an_option_of_the_command_line_names_it(tmp_path):
    with pytest.raises(UsageError, match=r"-params: .*treshold.*threshold"):
        train("--algo ppo_ext --env CartPole-v1 -params ext.treshold:7", tmp_path)


def facts_of(folder):
    return json.loads((folder / "run.json").read_text())


def test_weights_of_another_run_are_taken_over_and_its_id_is_kept(two_trainings, monkeypatch):
    monkeypatch.chdir(two_trainings)
    words = ["train", *OPTIONS.split(), "-f", "ours", "--num-threads", "1", "--init-from", "ours/ppo_ext/CartPole-v1_1"]
    assert main(words) == 0
    first, second = (two_trainings / f"ours/ppo_ext/CartPole-v1_{number}" for number in (1, 2))
    assert facts_of(second)["parent"] == facts_of(first)["id"]
    assert read_record(second).config["ext"]["init_from"] == "ours/ppo_ext/CartPole-v1_1"


def test_a_run_is_continued_in_its_folder(two_trainings, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder = shutil.copytree(two_trainings / "theirs/ppo_ext/CartPole-v1_1", tmp_path / "logs/ppo_ext/CartPole-v1_1")
    words = OPTIONS.replace("-n 256", "-n 512").split()
    assert main(["train", *words, "-f", "logs", "--num-threads", "1", "--resume", "@last"]) == 0
    assert facts_of(folder)["steps"] == 512 and [path.name for path in folder.parent.iterdir()] == ["CartPole-v1_1"]


INTERRUPTED = """
import signal
import gymnasium as gym
from gymnasium.envs.classic_control import CartPoleEnv

class Interrupted(CartPoleEnv):
    def step(self, action):
        signal.raise_signal(signal.SIGINT)
        return super().step(action)

gym.register("Interrupted-v0", Interrupted, max_episode_steps=10)
"""


def test_after_ctrl_c_the_exit_code_is_130(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "interrupted_envs.py").write_text(INTERRUPTED)
    words = f"--gym-packages interrupted_envs --vec-env dummy --num-threads 1 {OPTIONS}".replace(
        "CartPole-v1", "Interrupted-v0"
    )
    with pytest.raises(SystemExit) as end:
        main(["train", *words.split()])
    assert end.value.code == 130
