"""The command line overrides the hyperparameter file; what it does not mention is as in the file."""

import numpy as np
import pytest
import rl_zoo3.train
import yaml
from stable_baselines3.common.vec_env import DummyVecEnv
from zoo_in_process import train

from sb3_ext.callbacks import Evaluation
from sb3_ext.vec_env.multicore import MulticoreVecEnv

SECTION = {"policy": "MlpPolicy", "n_envs": 2, "n_steps": 64, "batch_size": 64, "n_epochs": 1}
EXT = {
    "vec_env": "multicore",
    "evaluation": {"every": 64, "episodes": 2},
    "checkpoints": {"every": 64, "table": False, "video": False},
    "report": False,
}


@pytest.fixture
def trained(tmp_path, monkeypatch):
    """Trains with a file that has all of these options, and returns the run folder and the model's environments."""
    file = tmp_path / "section.yml"
    file.write_text(yaml.safe_dump({"CartPole-v1": {**SECTION, "ext": EXT}}), encoding="utf-8")
    envs = []
    learn = rl_zoo3.train.ExperimentManager.learn
    monkeypatch.setattr(
        rl_zoo3.train.ExperimentManager, "learn", lambda self, model: (envs.append(model.env), learn(self, model))
    )

    def run(flags):
        train(f"--algo ppo_ext --env CartPole-v1 -n 128 --conf-file {file} {flags}", tmp_path)
        return tmp_path / "logs" / "ppo_ext" / "CartPole-v1_1", type(envs[0].unwrapped)

    return run


@pytest.mark.parametrize(
    ("flags", "evaluated_at", "n_episodes", "checkpoints", "vec_env"),
    [
        ("", [64, 128], 2, [64, 128], MulticoreVecEnv),
        ("--eval-freq 128", [128], 2, [64, 128], MulticoreVecEnv),
        ("--eval-freq 25000", [], None, [64, 128], MulticoreVecEnv),
        ("--eval-episodes=5", [64, 128], 5, [64, 128], MulticoreVecEnv),
        ("--eval-ep 5", [64, 128], 5, [64, 128], MulticoreVecEnv),
        ("--save-freq 100", [64, 128], 2, [100], MulticoreVecEnv),
        ("--save-freq -1", [64, 128], 2, [], MulticoreVecEnv),
        ("--vec-env dummy", [64, 128], 2, [64, 128], DummyVecEnv),
    ],
    ids=lambda value: (value or "no flags") if isinstance(value, str) else "",
)
def test_a_flag_that_was_typed_overrides_the_file_even_with_its_default(
    trained, flags, evaluated_at, n_episodes, checkpoints, vec_env
):
    folder, used = trained(flags)
    assert used is vec_env
    assert sorted(int(path.stem.split("_")[2]) for path in folder.glob("rl_model_*_steps.zip")) == checkpoints
    if not evaluated_at:
        assert not (folder / "evaluations.npz").exists()
        return
    evaluations = np.load(folder / "evaluations.npz")
    assert evaluations["timesteps"].tolist() == evaluated_at
    assert evaluations["results"].shape[1] == n_episodes


@pytest.mark.parametrize(("flags", "n_envs"), [("", 3), ("--n-eval-envs 2", 2)], ids=["file", "flag"])
def test_evaluation_has_as_many_environments_as_the_file_says(tmp_path, monkeypatch, flags, n_envs):
    file = tmp_path / "section.yml"
    section = {**SECTION, "ext": {**EXT, "vec_env": "auto", "evaluation": {"every": 64, "episodes": 3, "envs": 3}}}
    file.write_text(yaml.safe_dump({"CartPole-v1": section}), encoding="utf-8")
    seen = []
    monkeypatch.setattr(
        rl_zoo3.train.ExperimentManager,
        "learn",
        lambda self, model: seen.extend(each.eval_env for each in self.callbacks if isinstance(each, Evaluation)),
    )
    train(f"--algo ppo_ext --env CartPole-v1 -n 64 --conf-file {file} {flags}", tmp_path)
    assert [env.num_envs for env in seen] == [n_envs]
