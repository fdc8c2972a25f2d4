"""Weights of another agent are taken as far as they fit."""

import os
import pickle
import zipfile

import numpy as np
import pytest
import torch as th
from stable_baselines3 import A2C, PPO, SAC
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import VecNormalize

import sb3_ext
from sb3_ext import PPOExt
from sb3_ext.common.usage_error import UsageError
from sb3_ext.runs.agents.statistics import save_statistics
from sb3_ext.runs.agents.transfer import find_weights, init_from


def make(algorithm=PPOExt, env="CartPole-v1", seed=0, **kwargs):
    return algorithm("MlpPolicy", env, seed=seed, device="cpu", **kwargs)


def normalized(env_id="CartPole-v1"):
    return VecNormalize(make_vec_env(env_id, 1, seed=0))


def differing(model, other):
    """Names of the tensors that differ."""
    ours, theirs = model.policy.state_dict(), other.policy.state_dict()
    return [name for name in ours if ours[name].shape != theirs[name].shape or not th.equal(ours[name], theirs[name])]


@pytest.mark.parametrize("algorithm", [PPOExt, PPO, A2C])
def test_all_weights_of_an_equal_policy_are_taken(tmp_path, capsys, algorithm):
    source, model = make(algorithm, seed=1), make(PPOExt)
    source.save(tmp_path / "source.zip")
    sb3_ext.init_from(model, tmp_path / "source.zip")
    assert not differing(model, source)
    assert f"Weights of {tmp_path / 'source.zip'}: took 12 of 12 tensors\n" in capsys.readouterr().out


def test_what_has_another_shape_stays_and_is_named(tmp_path, capsys):
    source, model, untouched = make(env="Acrobot-v1", seed=1), make(), make()
    source.save(tmp_path / "source.zip")
    init_from(model, tmp_path / "source.zip")
    assert set(differing(model, source)) == {
        "mlp_extractor.policy_net.0.weight",
        "mlp_extractor.value_net.0.weight",
        "action_net.weight",
        "action_net.bias",
    }
    assert th.equal(model.policy.action_net.weight, untouched.policy.action_net.weight)
    said = capsys.readouterr().out
    assert "took 8 of 12 tensors; new: mlp_extractor.policy_net.0.weight (64, 4) ≠ (64, 6), " in said


def test_the_optimizer_and_the_counters_stay_fresh(tmp_path):
    source, model = make(PPO, n_steps=32, batch_size=32), make(PPO, n_steps=32, batch_size=32)
    source.learn(64).save(tmp_path / "source.zip")
    init_from(model, tmp_path / "source.zip", verbose=0)
    assert model.num_timesteps == 0 and not model.policy.optimizer.state


def test_the_fast_path_acts_with_the_new_weights(tmp_path):
    source, model = make(PPOExt, seed=1), make(PPOExt, n_steps=32, batch_size=32)
    model.learn(32)
    source.save(tmp_path / "source.zip")
    init_from(model, tmp_path / "source.zip", verbose=0)
    observations = np.random.default_rng(0).normal(size=(50, 4)).astype(np.float32)
    with model.predicting_fast():
        actions, _ = model.predict(observations, deterministic=True)
    assert np.array_equal(actions, source.predict(observations, deterministic=True)[0])


def test_a_state_dict_can_be_given(tmp_path):
    source, model = make(seed=1), make()
    th.save(source.policy.state_dict(), tmp_path / "policy.pth")
    init_from(model, tmp_path / "policy.pth", verbose=0)
    assert not differing(model, source)


def test_nothing_that_fits_is_an_error(tmp_path):
    make(SAC, env="Pendulum-v1").save(tmp_path / "source.zip")
    with pytest.raises(UsageError, match=r"has no tensor that fits this policy: mlp_extractor.*and 8 more"):
        init_from(make(), tmp_path / "source.zip")


class Evil:
    def __reduce__(self):
        return os.mkdir, ("evil",)


def test_no_code_in_the_file_is_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    make(seed=1).save("source.zip")
    with zipfile.ZipFile("source.zip") as old, zipfile.ZipFile("evil.zip", "w") as new:
        for name in old.namelist():
            new.writestr(name, pickle.dumps(Evil()) if name != "policy.pth" else old.read(name))
    init_from(make(), "evil.zip", verbose=0)
    th.save(Evil(), "evil.pth")
    with pytest.raises(UsageError, match="can be read"):
        init_from(make(), "evil.pth")
    assert not os.path.exists("evil")


@pytest.mark.parametrize("content", [b"", b"no zip", b"PK"])
def test_a_broken_file_is_an_error_that_names_it(tmp_path, content):
    (tmp_path / "broken.zip").write_bytes(content)
    with pytest.raises(UsageError, match=r"broken.zip has no weights of a policy"):
        init_from(make(), tmp_path / "broken.zip")


def test_the_best_model_of_a_run_is_taken_and_else_the_last(tmp_path):
    run = tmp_path / "logs" / "ppo" / "CartPole-v1_1"
    (run / "CartPole-v1").mkdir(parents=True)
    (run / "0.monitor.csv").touch()
    with pytest.raises(UsageError, match="has no model"):
        find_weights("ppo/CartPole-v1_1", tmp_path / "logs")
    for name in ("CartPole-v1.zip", "rl_model_8_steps.zip", "last_model.zip", "best_model.zip"):
        (run / "resume.zip").touch()
        make().save(run / name)
        assert find_weights("ppo/CartPole-v1_1", tmp_path / "logs") == run / name


@pytest.mark.parametrize("in_run", [True, False])
def test_statistics_are_taken_from_a_run_folder_only(tmp_path, in_run):
    source, model = make(PPO, normalized(), n_steps=32, batch_size=32), make(PPO, normalized())
    path = tmp_path / "best_model.zip"
    source.learn(32).save(path)
    save_statistics(source, path)
    if in_run:
        (tmp_path / "progress.csv").touch()
    init_from(model, path, verbose=0)
    assert np.array_equal(model.get_env().obs_rms.mean, source.get_env().obs_rms.mean) == in_run


@pytest.mark.parametrize(
    ("source_env", "env", "said"),
    [
        (normalized, normalized, "taken"),
        (lambda: normalized("Acrobot-v1"), normalized, "not taken, because the observations have other shapes"),
        (normalized, lambda: "CartPole-v1", "not taken, because this training does not normalise"),
        (lambda: "CartPole-v1", normalized, "there are none, but this training normalises"),
    ],
)
def test_it_says_what_happens_to_the_statistics(tmp_path, capsys, source_env, env, said):
    source, path = make(env=source_env()), tmp_path / "best_model.zip"
    source.save(path)
    save_statistics(source, path)
    (tmp_path / "progress.csv").touch()
    init_from(make(env=env()), path)
    assert f"Normalisation statistics of {path}: {said}" in capsys.readouterr().out
