"""Statistics are found beside the model they belong to, and nowhere else."""

import os
import pickle

import numpy as np
import pytest
from drifting_env import make_normalized, make_vec_env
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import CheckpointCallback
from stable_baselines3.common.vec_env import VecNormalize

from sb3_ext.runs.agents.statistics import load_statistics, matching_statistics, save_statistics, statistics_path


def make_model(env=None):
    return PPO("MlpPolicy", env or make_normalized(1.0), n_steps=16, batch_size=16, n_epochs=1, seed=0, device="cpu")


@pytest.fixture
def model(tmp_path):
    """A trained model, saved as a best model with its statistics."""
    model = make_model().learn(16)
    model.save(tmp_path / "best_model")
    save_statistics(model, tmp_path / "best_model.zip")
    return model


@pytest.mark.parametrize(
    ("model_file", "statistics_file"),
    [
        ("best_model.zip", "best_model_vecnormalize.pkl"),
        ("best_model", "best_model_vecnormalize.pkl"),
        ("rl_model_1000_steps.zip", "rl_model_vecnormalize_1000_steps.pkl"),
        ("of_v1.5_20_steps", "of_v1.5_vecnormalize_20_steps.pkl"),
    ],
)
def test_statistics_are_beside_the_model(tmp_path, model_file, statistics_file):
    assert statistics_path(tmp_path / model_file) == tmp_path / statistics_file
    assert statistics_path(str(tmp_path / model_file)) == tmp_path / statistics_file


def test_those_of_a_final_model_are_where_rl_zoo_saves_them(tmp_path):
    (tmp_path / "CartPole-v1").mkdir()
    (tmp_path / "CartPole-v1" / "config.yml").touch()
    assert statistics_path(tmp_path / "CartPole-v1.zip") == tmp_path / "CartPole-v1" / "vecnormalize.pkl"


def test_what_was_saved_is_loaded_to_play(model, tmp_path):
    loaded = load_statistics(tmp_path / "best_model.zip", make_vec_env())
    of_training = model.get_vec_normalize_env()
    np.testing.assert_array_equal(loaded.obs_rms.mean, of_training.obs_rms.mean)
    np.testing.assert_array_equal(loaded.obs_rms.var, of_training.obs_rms.var)
    assert loaded.ret_rms.var == of_training.ret_rms.var
    assert not loaded.training and not loaded.norm_reward


def test_training_can_go_on_with_them(model, tmp_path):
    loaded = load_statistics(tmp_path / "best_model", make_vec_env(), training=True)
    assert loaded.training and loaded.norm_reward
    count = loaded.obs_rms.count
    loaded.reset()
    assert loaded.obs_rms.count == count + 1


def test_sb3_can_load_the_file(model, tmp_path):
    loaded = VecNormalize.load(str(tmp_path / "best_model_vecnormalize.pkl"), make_vec_env())
    np.testing.assert_array_equal(loaded.obs_rms.mean, model.get_vec_normalize_env().obs_rms.mean)


def test_a_file_that_sb3_wrote_is_loaded(tmp_path):
    model = make_model()
    model.learn(16, callback=CheckpointCallback(10, str(tmp_path), save_vecnormalize=True))
    loaded = load_statistics(tmp_path / "rl_model_10_steps.zip", make_vec_env())
    assert loaded.obs_rms.count < model.get_vec_normalize_env().obs_rms.count


def test_without_normalisation_nothing_is_saved(tmp_path):
    assert save_statistics(make_model(make_vec_env()), tmp_path / "best_model") is None
    assert not list(tmp_path.iterdir())


def test_missing_statistics_get_an_error_that_says_what_to_do(tmp_path):
    make_model().save(tmp_path / "best_model")
    with pytest.raises(FileNotFoundError, match=r"no normalisation statistics for .*best_model.*SaveNormalization"):
        load_statistics(tmp_path / "best_model", make_vec_env())


def test_statistics_of_another_model_with_the_same_name_are_refused(model, tmp_path):
    make_model().learn(32).save(tmp_path / "best_model")
    with pytest.raises(ValueError, match=r"saved after 16 steps, .*best_model after 32.*another model"):
        matching_statistics(tmp_path / "best_model")


def test_a_run_that_dies_while_saving_leaves_the_old_file_whole(model, tmp_path, monkeypatch):
    path = tmp_path / "best_model_vecnormalize.pkl"
    before = path.read_bytes()

    def die_half_way(self, save_path):
        with open(save_path, "wb") as file:
            file.write(pickle.dumps(self)[:20])
        raise KeyboardInterrupt

    monkeypatch.setattr(VecNormalize, "save", die_half_way)
    with pytest.raises(KeyboardInterrupt):
        save_statistics(model, tmp_path / "best_model")
    assert path.read_bytes() == before
    assert sorted(os.listdir(tmp_path)) == ["best_model.zip", path.name]
