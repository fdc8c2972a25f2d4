"""Which folder a training gets, when others start at the same time."""

import argparse
from pathlib import Path

import pytest
import rl_zoo3.train  # noqa: F401  puts the extended ExperimentManager in place
from rl_zoo3 import exp_manager
from stable_baselines3.common.callbacks import CheckpointCallback, EvalCallback

SMALL = {"n_envs": 1, "n_steps": 8, "batch_size": 8}


def start(folder, kind=None, algo="ppo_ext", **hyperparams):
    """RL Zoo chooses the number of the folder here, long before it makes it."""
    kind = kind or exp_manager.ExperimentManager
    arguments = argparse.Namespace(num_threads=1)
    return kind(arguments, algo, "CartPole-v1", str(folder), verbose=0, save_freq=8, hyperparams=SMALL | hyperparams)


def files_of(manager):
    """Folders that what was set up writes to."""
    places = [manager.save_path, manager.params_path]
    for callback in manager.callbacks:
        if isinstance(callback, EvalCallback):
            places += [callback.best_model_save_path, callback.log_path]
        if isinstance(callback, CheckpointCallback):
            places.append(callback.save_path)
        places.append(getattr(callback, "folder", None) or getattr(callback, "_folder", None))
    return [Path(place) for place in places if place]


@pytest.mark.parametrize(("algo", "ext"), [("ppo_ext", {}), ("ppo", {"ext": {"report": True}})])
def test_trainings_that_start_together_have_a_folder_each(tmp_path, algo, ext):
    managers = [start(tmp_path, algo=algo, **ext) for _ in range(3)]
    for manager in managers:
        manager.setup_experiment()
    folders = [Path(manager.save_path) for manager in managers]
    assert [folder.name for folder in folders] == ["CartPole-v1_1", "CartPole-v1_2", "CartPole-v1_3"]
    for manager, folder in zip(managers, folders, strict=True):
        assert {folder.name} == {path.relative_to(folder.parent).parts[0] for path in files_of(manager)}
        assert len(list(folder.glob("*.monitor.csv"))) == 1 and (folder / "CartPole-v1" / "config.yml").is_file()


def test_stock_algorithms_choose_their_folder_as_before(tmp_path):
    managers = [start(tmp_path, algo="ppo") for _ in range(2)]
    for manager in managers:
        manager.setup_experiment()
    assert [Path(manager.save_path).name for manager in managers] == ["CartPole-v1_1", "CartPole-v1_1"]


def test_a_start_that_fails_leaves_the_folder_of_another_one_alone(tmp_path):
    healthy = start(tmp_path)

    class Fails(exp_manager.ExperimentManager):
        def create_log_folder(self):
            healthy.setup_experiment()  # in the middle of this one
            super().create_log_folder()

    with pytest.raises(ValueError, match="gSDE"):
        start(tmp_path, Fails, use_sde=True).setup_experiment()
    assert [folder.name for folder in (tmp_path / "ppo_ext").iterdir()] == ["CartPole-v1_1"]
    assert (tmp_path / "ppo_ext" / "CartPole-v1_1" / "CartPole-v1" / "config.yml").is_file()


@pytest.mark.parametrize(("algo", "mistake"), [("ppo_ext", {"clip_rang": 0.1}), ("ppo", {"clip_range": "wrong"})])
def test_a_start_that_fails_before_it_claims_a_folder_deletes_none(tmp_path, algo, mistake):
    fails = start(tmp_path, algo=algo, **mistake)
    start(tmp_path, algo=algo).setup_experiment()  # gets the folder that RL Zoo has chosen for the other
    with pytest.raises((TypeError, ValueError)):
        fails.setup_experiment()
    assert (tmp_path / algo / "CartPole-v1_1" / "CartPole-v1" / "config.yml").is_file()


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
def test_a_start_that_is_broken_off_leaves_no_folder(tmp_path, error):
    class BreaksOff(exp_manager.ExperimentManager):
        def create_envs(self, n_envs, eval_env=False, no_log=False):
            assert Path(self.save_path).is_dir()
            raise error

    with pytest.raises(error):
        start(tmp_path, BreaksOff).setup_experiment()
    assert not (tmp_path / "ppo_ext").exists()
