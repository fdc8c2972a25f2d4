"""The text that ``sb3-ext review`` sends is enough to find out what is wrong with a training."""

import sys
from pathlib import Path

import gymnasium as gym
import pytest
import yaml
from conftest import PROJECT
from zoo_in_process import train

from sb3_ext.cli import main

REVIEWER = f"'{sys.executable}' '{PROJECT / 'tests' / 'rule_based_reviewer.py'}'"
SECTION = {
    **{"policy": "MlpPolicy", "n_envs": 8, "n_steps": 32, "batch_size": 64, "n_epochs": 5, "n_timesteps": 6000},
    **{"learning_rate": 0.0015, "gamma": 0.98, "gae_lambda": 0.8},
    "ext": {"table": False, "report": False, "threshold": 50, "evaluation": {"every": 1000, "episodes": 5}},
}


class ScaledRewards(gym.RewardWrapper):
    def __init__(self, env, factor):
        super().__init__(env)
        self._factor = factor

    def reward(self, reward):
        return float(reward) * self._factor


def trained(folder, changes=(), flags=""):
    (folder / "section.yml").write_text(yaml.safe_dump({"CartPole-v1": {**SECTION, **dict(changes)}}))
    train(f"--algo ppo_ext --env CartPole-v1 --seed 1 -conf section.yml {flags}", folder)


MISTAKES = {
    "learning_rate": {"learning_rate": 0.1, "n_timesteps": 1000},
    "n_epochs": {"n_epochs": 30, "clip_range": 5.0, "n_timesteps": 1000},
    "n_timesteps": {"n_timesteps": 3500, "ext": {**SECTION["ext"], "threshold": 475}},
    "env_wrapper": {"env_wrapper": [{f"{__name__}.ScaledRewards": {"factor": 1000}}], "n_timesteps": 1000},
    "gamma": {"gamma": 0.0, "n_timesteps": 1000},
    "eval_env_kwargs": {},
    "nothing": {},
}


@pytest.mark.parametrize("setting", MISTAKES)
def test_the_planted_mistake_is_found_from_the_text_alone(setting, tmp_path, monkeypatch, capsys):
    flags = "--eval-env-kwargs sutton_barto_reward:True" if setting == "eval_env_kwargs" else ""
    trained(tmp_path, MISTAKES[setting], flags)
    monkeypatch.chdir(tmp_path)
    assert main(["review", "@last", "--llm-command", REVIEWER]) == 0
    answer = Path("logs/ppo_ext/CartPole-v1_1/review.md").read_text(encoding="utf-8").rpartition("---\n\n")[2]
    assert answer.startswith(f"Change {setting}: ")


def test_a_run_is_compared_with_the_run_that_its_weights_come_from(tmp_path, monkeypatch, capsys):
    short = {"n_timesteps": 600, "learning_rate": 0.001}
    trained(tmp_path, short)
    trained(tmp_path, {**short, "learning_rate": 0.002})
    trained(tmp_path, {**short, "ext": {**SECTION["ext"], "init_from": "ppo_ext/CartPole-v1_1"}, "gamma": 0.9})
    monkeypatch.chdir(tmp_path)
    capsys.readouterr()
    assert main(["review", "@last"]) == 0
    said = capsys.readouterr().out.split("## What changed\n")[1].split("\n## ")[0]
    assert "which is `ppo_ext/CartPole-v1_1`." in said
    assert "| gamma | 0.98 | 0.9 |" in said and "learning_rate" not in said and "| seed |" not in said
