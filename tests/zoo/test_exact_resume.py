"""A training that was killed and resumed ends with the parameters of one that was not."""

import json
import shutil
from pathlib import Path

import pandas as pd
import pytest
import torch as th
import yaml
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.save_util import load_from_zip_file
from zoo_in_process import train

from sb3_ext.cli import main

STEPS = {"n_steps": 32, "n_envs": 2, "batch_size": 16, "n_epochs": 2}
QUIET = {"table": False, "report": False, "checkpoints": {"resume_seconds": 0, "table": False, "video": False}}
PIXELS = {
    "env_wrapper": ["stable_baselines3.common.atari_wrappers.AtariWrapper"],
    "frame_stack": 4,
    "policy": "CnnPolicy",
    "policy_kwargs": "dict(features_extractor_kwargs=dict(features_dim=16))",
}
RANDOMIZATION = "sb3_ext.wrappers.DomainRandomization"
POLE = {"length": {"schedule": {"from": 0.5, "to": {"uniform": [0.25, 1.5]}}}}
CASES = {
    "cartpole": ("ppo_ext", "CartPole-v1", STEPS),
    "cartpole_normalized": ("ppo_ext", "CartPole-v1", {**STEPS, "normalize": True}),
    "cartpole_plain_envs": ("ppo_ext", "CartPole-v1", {**STEPS, "ext": {"native": False, "vec_env": "dummy"}}),
    "frozen_lake": ("ppo_ext", "FrozenLake-v1", STEPS),
    "frozen_lake_normalized": ("ppo_ext", "FrozenLake-v1", {**STEPS, "normalize": "{'norm_obs': False}"}),
    "pong_objects": ("ppo_ext", "Pong-v5_objects", STEPS),
    "pong_objects_normalized": ("ppo_ext", "Pong-v5_objects", {**STEPS, "normalize": True}),
    "pong_pixels": ("ppo_ext", "Pong-v5", {**STEPS, **PIXELS, "ext": {"native": False}}),
    "pong_pixels_native": ("ppo_ext", "Pong-v5", {**STEPS, **PIXELS}),
    "pong_pixels_normalized": (
        "ppo_ext",
        "Pong-v5",
        {**STEPS, **PIXELS, "ext": {"native": False}, "normalize": "{'norm_obs': False}"},
    ),
    "curriculum": (
        "ppo_ext",
        "CartPole-v1",
        {
            **STEPS,
            "ext": {
                "curriculum": {
                    "stages": [
                        {"name": "a", "env_kwargs": {"sutton_barto_reward": True}, "next": {"steps": 100}},
                        {"name": "b", "next": {"steps": 150}},
                        {"name": "c", "env_kwargs": {"sutton_barto_reward": True}},
                    ]
                }
            },
        },
    ),
    "schedules": (
        "ppo_ext",
        "CartPole-v1",
        {**STEPS, "learning_rate": "lin_0.01", "ent_coef": {"start": 0.1, "end": 0.0}, "clip_range": "lin_0.2"},
    ),
    "randomization": ("ppo_ext", "CartPole-v1", {**STEPS, "env_wrapper": [{RANDOMIZATION: {"parameters": POLE}}]}),
    "adaptive_learning_rate": ("ppo_ext", "CartPole-v1", {**STEPS, "kl_adaptive_lr": 0.01}),
    "value_normalization": ("ppo_ext", "CartPole-v1", {**STEPS, "normalize_values": True}),
    "gsde": ("ppo_ext", "Pendulum-v1", {**STEPS, "use_sde": True, "sde_sample_freq": 8}),
    "recurrent": ("ppo_lstm_ext", "CartPole-v1", {**STEPS, "policy": "MlpLstmPolicy"}),
    "whole_episodes": ("reinforce", "CartPole-v1", {"n_steps": 32, "n_envs": 2}),
    "a2c": ("a2c_ext", "CartPole-v1", {"n_steps": 8, "n_envs": 2}),
    "stock": ("ppo", "CartPole-v1", {**STEPS, "ext": {"metrics": True}}),
}


class CopyRun(BaseCallback):
    """Keeps the run folder as a SIGKILL in the middle of a rollout would leave it."""

    def __init__(self, at, folder, to):
        super().__init__()
        self.at, self.folder, self.to = at, folder, to

    def _on_step(self):
        if self.num_timesteps == self.at and not Path(self.to).exists():
            shutil.copytree(self.folder, self.to)
        return True


def parameters_of(path):
    _, parameters, _ = load_from_zip_file(path)
    return parameters


def assert_same(one, other):
    assert one.keys() == other.keys()
    for name in one:
        flat, other_flat = (th.utils._pytree.tree_leaves(part[name]) for part in (one, other))
        for a, b in zip(flat, other_flat, strict=True):
            assert a == b if not isinstance(a, th.Tensor) else th.equal(a, b), name


def write_section(path, env_id, section, **ext):
    section = {"policy": "MlpPolicy", "n_timesteps": 1e6, **section}
    section["ext"] = {**QUIET, **section.get("ext", {}), **ext}
    path.write_text(yaml.safe_dump({env_id: section}))


def train_and_kill(tmp_path, name, total=320, kill_at=170):
    """:return: the folder of a training, and a copy of what it was in the middle"""
    algo, env_id, section = CASES[name]
    folder, copied = tmp_path / "logs" / algo / f"{env_id}_1", tmp_path / "logs" / "killed"
    callback = {"test_exact_resume.CopyRun": {"at": kill_at, "folder": str(folder), "to": str(copied)}}
    write_section(tmp_path / "section.yml", env_id, {**section, "callback": [callback]})
    train(
        # A game of Pong takes too long
        f"--algo {algo} --env {env_id} -n {total} --seed 3 -conf section.yml --eval-episodes 1 "
        f"--eval-freq {-1 if 'Pong' in env_id else 128}",
        tmp_path,
    )
    facts = json.loads((copied / "run.json").read_text())
    (copied / "run.json").write_text(json.dumps({**facts, "process_started": 0.0}))  # the process is gone
    return folder, copied


def resume(folder, arguments, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["resume", str(folder), *arguments]) == 0


@pytest.mark.parametrize("name", CASES)
def test_parameters_and_curves_after_a_kill_and_a_resume_are_those_of_one_training(name, tmp_path, monkeypatch):
    straight, killed = train_and_kill(tmp_path, name)
    resume(killed, [], tmp_path, monkeypatch)
    env_id = CASES[name][1]
    assert_same(parameters_of(straight / f"{env_id}.zip"), parameters_of(killed / f"{env_id}.zip"))
    assert_same_rows(straight, killed)


def assert_same_rows(straight, resumed):
    one, other = (pd.read_csv(folder / "progress.csv") for folder in (straight, resumed))
    assert set(one) == set(other)
    # How long something took, and what is only computed when there is time
    timed = [
        name for name in one if name.startswith(("time/", "policy/")) or name in ("eval/time", "rollout/env_diversity")
    ]
    for name in {"time/total_timesteps", "time/iterations"} & set(one):
        assert one[name].equals(other[name])
    if "train/grad_norm_clipped" in one:  # of stock algorithms: read from gradients, which are not saved
        timed += [name for name in one if name.startswith("train/grad_norm_clipped")]
    pd.testing.assert_frame_equal(one.drop(columns=timed), other[list(one)].drop(columns=timed), check_exact=True)
