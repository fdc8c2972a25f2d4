"""RL Zoo's command starts from an earlier training: a whole agent with -i, or weights with init_from."""

import json
import shlex

import pytest
import torch as th
import yaml
from stable_baselines3.common.save_util import load_from_zip_file
from zoo_in_process import train

from sb3_ext.common.usage_error import UsageError

TINY = "--algo ppo_ext --env CartPole-v1 -n 32 --eval-freq -1 --seed 1"
AGENT = "logs/ppo_ext/CartPole-v1_1/CartPole-v1.zip"


def write_config(folder, **ext):
    section = {"n_timesteps": 32, "policy": "MlpPolicy", "n_steps": 16, "batch_size": 16, "n_envs": 2, "n_epochs": 1}
    section |= {"learning_rate": 0.0, "ext": {"report": False, "table": False, **ext}}
    (folder / "config.yml").write_text(yaml.dump({"CartPole-v1": section}))
    return f"{TINY} --conf-file {shlex.quote(str(folder / 'config.yml'))}"


@pytest.fixture(scope="module")
def first(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    train(write_config(folder).replace("--seed 1", "--seed 2"), folder)
    return folder


def weights(folder, number):
    return load_from_zip_file(folder / f"logs/ppo_ext/CartPole-v1_{number}/CartPole-v1.zip")[1]["policy"]


def facts(folder, number):
    return json.loads((folder / f"logs/ppo_ext/CartPole-v1_{number}/run.json").read_text())


def test_a_section_can_name_a_run_to_take_the_weights_of(first, capsys):
    train(write_config(first, init_from="CartPole-v1_1"), first)
    before, after = weights(first, 1), weights(first, 2)
    assert all(th.equal(before[name], after[name]) for name in before)  # the learning rate is 0
    assert "took 12 of 12 tensors" in capsys.readouterr().out
    assert facts(first, 2)["parent"] == facts(first, 1)["id"]


def test_a_run_that_does_not_exist_leaves_no_folder(first):
    folders = sorted((first / "logs/ppo_ext").iterdir())
    with pytest.raises(UsageError, match="CartPole-v1_9"):
        train(write_config(first, init_from="CartPole-v1_9"), first)
    assert sorted((first / "logs/ppo_ext").iterdir()) == folders


def test_continuing_an_agent_says_that_resume_exists(first, capsys):
    train(f"{write_config(first)} -i {AGENT}", first)
    assert "To continue the old run: sb3-ext resume logs/ppo_ext/CartPole-v1_1\n" in capsys.readouterr().out


def test_an_agent_and_weights_are_an_error(first):
    with pytest.raises(UsageError, match="only one of them"):
        train(f"{write_config(first, init_from='@last')} -i {AGENT}", first)
