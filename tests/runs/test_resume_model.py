"""Trainings in Python are continued from their folder."""

import json
import pickle
from dataclasses import replace

import torch as th
from stable_baselines3 import DQN, PPO
from stable_baselines3.common.env_util import make_vec_env

from sb3_ext import resume_model
from sb3_ext.callbacks import Checkpoints
from sb3_ext.runs.agents.bundle import Bundle, find_bundle
from sb3_ext.runs.resume import read_state


def make_envs():
    return make_vec_env("CartPole-v1", 2, seed=1)


def keep(folder):
    return Checkpoints(str(folder), table=False, video=False, resume_seconds=0)


def train(folder, steps=256, seed=1):
    model = PPO("MlpPolicy", make_envs(), n_steps=32, batch_size=32, n_epochs=2, seed=seed, device="cpu")
    return model.learn(steps, callback=keep(folder))


def test_a_training_in_two_parts_ends_with_the_parameters_of_one_and_is_one_run(tmp_path):
    straight = train(tmp_path / "straight")
    train(tmp_path / "parts", 128)
    before = json.loads((tmp_path / "parts/run.json").read_text())
    model = resume_model(PPO, tmp_path / "parts", make_envs(), device="cpu")
    model.learn(128, callback=keep(tmp_path / "parts"), reset_num_timesteps=False)
    parameters = zip(straight.policy.parameters(), model.policy.parameters(), strict=True)
    assert all(th.equal(one, other) for one, other in parameters)
    after = json.loads((tmp_path / "parts/run.json").read_text())
    assert after["id"] == before["id"]
    assert [resume["step"] for resume in after["resumes"]] == [128]


def test_the_seconds_before_count_too(tmp_path):
    train(tmp_path, 64)
    bundle = find_bundle(tmp_path)
    state = replace(read_state(bundle), seconds=1000.0)
    replace(bundle, state=pickle.dumps(state)).write(tmp_path / "resume.zip")
    model = resume_model(PPO, tmp_path, make_envs(), device="cpu")
    model.learn(64, callback=keep(tmp_path), reset_num_timesteps=False)
    assert json.loads((tmp_path / "run.json").read_text())["seconds"] > 1000


def test_parameters_that_are_not_finite_dont_replace_the_state_from_before(tmp_path):
    model = train(tmp_path)
    good = find_bundle(tmp_path).step
    with th.no_grad():
        next(iter(model.policy.parameters())).fill_(th.nan)
    try:
        model.learn(64, callback=keep(tmp_path), reset_num_timesteps=False)
    except ValueError:
        pass  # of torch, at the first action
    assert find_bundle(tmp_path).step == good


def test_a_replay_buffer_fills_again_before_the_model_is_trained_however_often_it_is_resumed(tmp_path):
    settings = {"learning_starts": 50, "buffer_size": 1000, "train_freq": 4, "device": "cpu"}
    DQN("MlpPolicy", make_envs(), **settings).learn(200, callback=keep(tmp_path))
    for _ in range(2):
        model = resume_model(DQN, tmp_path, make_envs(), device="cpu")
        assert model.learning_starts == find_bundle(tmp_path).step + 50
        model.learn(100, callback=keep(tmp_path), reset_num_timesteps=False)


def test_a_bundle_that_is_read_back_is_the_one_that_was_written(tmp_path):
    Bundle(7, b"state", b"model").write(tmp_path / "resume.zip")
    read = find_bundle(tmp_path)
    assert (read.step, read.state, read.model) == (7, b"state", b"model")
