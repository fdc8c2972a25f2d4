"""What changed since an earlier run, as a review says it."""

import json

import numpy as np
import pytest
import yaml
from registered_runs import add_run
from report_folders import tables_of, zoo_run

from sb3_ext.runs.record import read_record
from sb3_ext.runs.report.changes import changes


@pytest.fixture
def logs(tmp_path):
    """Two runs of CartPole-v1, with one of another environment in between."""
    for number, scores in ((1, np.linspace(10, 20, 50)), (2, np.linspace(10, 490, 50))):
        folder = zoo_run(tmp_path / "ppo_ext" / f"CartPole-v1_{number}", scores, seed=number)
        versions = {"torch": "2.13.0", "sb3-ext": f"0.{number}"}
        add_run(tmp_path, f"ppo_ext/{folder.name}", started=f"2026-01-0{2 * number}T00:00:00", versions=versions)
    add_run(tmp_path, "ppo_ext/Acrobot-v1_1", started="2026-01-03T00:00:00")
    config = {"n_timesteps": 100_000, "policy": "MlpPolicy", "shape": [1, 2], "ext": {"threshold": 100}, "gamma": 0.9}
    (tmp_path / "ppo_ext" / "CartPole-v1_2" / "CartPole-v1" / "config.yml").write_text(yaml.safe_dump(config))
    (tmp_path / "ppo_ext" / "CartPole-v1_2" / "alerts.json").write_text(json.dumps([{"id": "kl_high", "count": 3}]))
    return tmp_path


def changes_of(logs, name):
    return "\n".join(changes(read_record(logs / "ppo_ext" / name), logs))


def test_a_run_without_a_parent_is_compared_with_the_previous_one_of_its_kind(logs):
    said = changes_of(logs, "CartPole-v1_2")
    assert "The previous run of this algorithm and environment is `ppo_ext/CartPole-v1_1`." in said
    (rows,) = tables_of(said)
    assert rows == [
        ["what", "before", "this run"],
        ["ext.threshold", "not set", "100"],
        ["gamma", "not set", "0.9"],
        ["seed", "1", "2"],
        ["versions.sb3-ext", "0.1", "0.2"],
        ["score (end of training)", "20", "490"],
        ["steps to the threshold", "never", "22,000"],
        ["steps", "100,000", "100,000"],
        ["alerts", "off", "kl_high"],
    ]


@pytest.mark.parametrize("name", ["CartPole-v1_1", "Acrobot-v1_1"])
def test_the_first_run_of_its_kind_has_nothing_to_be_compared_with(logs, name):
    assert changes_of(logs, name) == "It has no parent, and there is no earlier run of this algorithm and environment."


def test_a_parent_beats_the_previous_run_and_may_be_elsewhere(logs):
    zoo_run(logs / "ppo_ext" / "CartPole-v1_3")
    add_run(logs, "ppo_ext/CartPole-v1_3", parent="CartPole-v1_1")
    assert "its parent `CartPole-v1_1`, which is `ppo_ext/CartPole-v1_1`." in changes_of(logs, "CartPole-v1_3")
    add_run(logs, "ppo_ext/CartPole-v1_3", parent="abc")
    assert changes_of(logs, "CartPole-v1_3").endswith(f"its parent `abc`, which is not in {logs}.")


def test_the_same_training_again_changes_no_setting(logs):
    zoo_run(logs / "ppo_ext" / "CartPole-v1_3", seed=1)
    add_run(logs, "ppo_ext/CartPole-v1_3", parent="CartPole-v1_1", versions={"torch": "2.13.0", "sb3-ext": "0.1"})
    assert "\nNo hyperparameter changed.\n" in changes_of(logs, "CartPole-v1_3")
