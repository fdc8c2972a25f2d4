"""``sb3-ext train``: what it adds to RL Zoo's ``train``."""

import json

import pytest
import torch as th
from zoo_in_process import train

from sb3_ext import PPOExt
from sb3_ext.cli import main

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
    [("--algo ppo_exd", "did you mean 'ppo_ext'?"), ("--eval-frq 5", "did you mean '--eval-freq'?")],
)
def test_a_mistyped_option_is_answered_in_two_lines(words, answer, capsys):
    with pytest.raises(SystemExit) as end:
        main(["train", *words.split()])
    said = capsys.readouterr().err
    assert end.value.code == 2 and answer in said and len(said.splitlines()) == 2


def test_an_error_in_the_training_keeps_its_type(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "broken_envs.py").write_text("1 / 0")
    with pytest.raises(ZeroDivisionError):
        main(["train", "--gym-packages", "broken_envs"])
