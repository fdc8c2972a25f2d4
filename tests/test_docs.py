"""Every YAML example in the docs is a hyperparameter file that trains as it is."""

import argparse
import re
from pathlib import Path

import gymnasium as gym
import pytest
import rl_zoo3.train  # noqa: F401  puts the extended ExperimentManager in place
import yaml
from rl_zoo3 import exp_manager

PROJECT = Path(__file__).parent.parent
PAGES = [PROJECT / "README.md", *sorted((PROJECT / "docs").glob("*.md"))]


def examples():
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for match in re.finditer(r"^```yaml\n(.*?)^```", text, re.DOTALL | re.MULTILINE):
            line = text[: match.start()].count("\n") + 1
            for env_id, section in yaml.safe_load(match[1]).items():
                yield pytest.param(env_id, section, id=f"{page.name}:{line}:{env_id}")


@pytest.mark.parametrize(("env_id", "section"), examples())
def test_an_example_can_be_trained(env_id, section, tmp_path, monkeypatch):
    if "my_package" in str(section):
        pytest.skip("names a class of the reader's")
    try:
        gym.make(env_id).close()
    except (gym.error.DependencyNotInstalled, gym.error.NamespaceNotFound) as error:
        pytest.skip(str(error))
    monkeypatch.setenv("WANDB_MODE", "offline")
    config = tmp_path / "example.yml"
    config.write_text(yaml.safe_dump({env_id: section}), encoding="utf-8")
    manager = exp_manager.ExperimentManager(
        argparse.Namespace(num_threads=1),
        "ppo_lstm_ext" if "Lstm" in section["policy"] else "ppo_ext",
        env_id,
        str(tmp_path),
        config=str(config),
        n_eval_envs=1,
    )
    model, _ = manager.setup_experiment()
    model.env.close()
