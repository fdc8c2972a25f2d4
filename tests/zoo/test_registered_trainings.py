"""Trainings of RL Zoo's command are listed in the registry of their log folder."""

import pytest
from zoo_in_process import train

from sb3_ext.runs.registry import REGISTRY_FILE, Registry


def test_a_training_of_rl_zoo_is_registered_with_its_score_and_its_end(tmp_path):
    train("--algo ppo_ext --env CartPole-v1 -n 128 --eval-freq 64 --eval-episodes 1 -params n_steps:8", tmp_path)
    (entry,) = Registry(tmp_path / "logs").entries()
    assert (tmp_path / "logs" / REGISTRY_FILE).is_file()
    assert (entry["folder"], entry["state"], entry["env"]) == ("ppo_ext/CartPole-v1_1", "finished", "CartPole-v1")
    assert entry["score"] > 0 and entry["threshold"] == 475 and entry["solved"] is False
    model = "logs/ppo_ext/CartPole-v1_1/CartPole-v1.zip"
    train(f"--algo ppo_ext --env CartPole-v1 -n 128 --eval-freq -1 -params n_steps:8 -i {model}", tmp_path)
    newest = Registry(tmp_path / "logs").entries()[0]
    assert newest["folder"] == "ppo_ext/CartPole-v1_2" and newest["parent"] == entry["id"]


def test_a_registry_that_can_not_be_written_is_one_warning_and_training_goes_on(tmp_path):
    (tmp_path / "logs" / REGISTRY_FILE).mkdir(parents=True)
    with pytest.warns(UserWarning) as warned:
        train("--algo ppo_ext --env CartPole-v1 -n 128 --eval-freq 32 --eval-episodes 1 -params n_steps:8", tmp_path)
    assert sum(REGISTRY_FILE in str(warning.message) for warning in warned) == 1
    assert (tmp_path / "logs/ppo_ext/CartPole-v1_1/CartPole-v1.zip").is_file()


def test_the_log_of_a_training_has_its_start_its_messages_and_its_end(tmp_path):
    arguments = "--algo ppo_ext --env CartPole-v1 -n 64 --eval-freq 32 --eval-episodes 1 -params n_steps:8"
    train(arguments, tmp_path)
    text = (tmp_path / "logs/ppo_ext/CartPole-v1_1/run.log").read_text(encoding="utf-8")
    (entry,) = Registry(tmp_path / "logs").entries()
    said = ["Environments: ", f"Run {entry['id']} starts at step 0: ", "Eval num_timesteps=64", "Report: "]
    places = [text.index(what) for what in (*said, f"Run {entry['id']} finished at step 64\n")]
    assert places == sorted(places)
