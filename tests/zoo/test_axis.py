"""Numbers of steps in a hyperparameter file, in vec steps: one step in every environment."""

import json

import numpy as np
import pytest
import yaml
from zoo_in_process import train

SECTION = {"policy": "MlpPolicy", "n_timesteps": 128, "n_envs": 2, "n_steps": 32, "batch_size": 64, "n_epochs": 1}
EXT = {
    "axis": "vec_steps",
    "evaluation": {"every": 32, "warmup": 40, "episodes": 1},
    "checkpoints": {"every": 64, "table": False, "video": False},
    "report": {"plots": False},
}


@pytest.mark.parametrize(
    ("algo", "flags", "total", "evaluated_at"),
    [
        ("ppo_ext", "", 256, [128, 192, 256]),
        ("ppo", "", 256, [128, 192, 256]),
        ("ppo_ext", "-n 128 --eval-freq 120", 128, [120]),
    ],
    ids=["ours", "stock", "the command line is in timesteps"],
)
def test_the_budget_and_frequencies_count_steps_of_each_environment(tmp_path, algo, flags, total, evaluated_at):
    file = tmp_path / "section.yml"
    file.write_text(yaml.safe_dump({"CartPole-v1": {**SECTION, "ext": EXT}}), encoding="utf-8")
    train(f"--algo {algo} --env CartPole-v1 --conf-file {file} {flags}", tmp_path)
    folder = tmp_path / "logs" / algo / "CartPole-v1_1"
    run = json.loads((folder / "run.json").read_text())
    assert (run["total_timesteps"], run["axis"], run["n_envs"]) == (total, "vec_steps", 2)
    assert np.load(folder / "evaluations.npz")["timesteps"].tolist() == evaluated_at
    assert (folder / "rl_model_128_steps.zip").exists() and not (folder / "rl_model_64_steps.zip").exists()
