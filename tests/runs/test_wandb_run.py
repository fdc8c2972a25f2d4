"""Runs of Weights & Biases by name: an offline run on this machine, and one that the API has."""

import inspect
import json
from pathlib import Path
from types import SimpleNamespace

import pytest
import wandb
from wandb_offline import offline
from wandb_server import wandb_server

from sb3_ext.common.usage_error import UsageError
from sb3_ext.runs.find_run import find_run
from sb3_ext.runs.record import SCORE, read_record
from sb3_ext.runs.wandb_run import fetch_run

CONFIG = {"algo": "ppo", "env": "CartPole-v1", "seed": 3, "saved_hyperparams": {"n_steps": 64, "policy": "MlpPolicy"}}
ROWS = [
    {"global_step": 64, "rollout/ep_rew_mean": 20.0, "_runtime": 1.5, "hist": {"bins": [1]}},
    {"global_step": 128, "rollout/ep_rew_mean": 25.0, "_runtime": 3.0},
]


@pytest.fixture(scope="module")
def offline_run(tmp_path_factory):
    """As RL Zoo's --track leaves one."""
    with offline(tmp_path_factory.mktemp("wandb")) as folder:
        run = wandb.init(project="poles", config=CONFIG, id="abc123")
        for row in ROWS:
            run.log({name: value for name, value in row.items() if name not in ("_runtime", "hist")})
        run.finish()
    return next(folder.glob("wandb/offline-run-*"))


def test_an_offline_run_becomes_a_run_folder(offline_run, tmp_path):
    folder = find_run(str(offline_run), tmp_path)
    assert folder == tmp_path / "ppo" / "CartPole-v1_1"
    run = read_record(folder)
    assert (run.algo, run.env_id, run.steps, run.config["n_steps"]) == ("ppo", "CartPole-v1", 128, 64)
    assert run.series[SCORE].values.tolist() == [20.0, 25.0] and run.series[SCORE].steps.tolist() == [64, 128]
    assert run.training["state"] == "finished" and run.problems == ()


def test_a_run_that_is_here_is_not_made_again(offline_run, tmp_path):
    assert find_run(offline_run, tmp_path) == find_run(offline_run, tmp_path)
    assert len(list(tmp_path.glob("ppo/*"))) == 1


@pytest.fixture(scope="module")
def server():
    with wandb_server("abc", CONFIG, ROWS):
        yield


@pytest.mark.parametrize("name", ["wandb:me/poles/abc", "https://wandb.ai/me/poles/runs/abc?nw=1"])
def test_a_run_on_a_server_becomes_a_run_folder(server, name, tmp_path):
    run = read_record(find_run(name, tmp_path))
    assert run.args["seed"] == 3 and run.config["n_steps"] == 64 and run.seconds == 3.0
    assert run.series[SCORE].values.tolist() == [20.0, 25.0] and run.training["state"] == "failed"
    assert sorted(run.series) == [SCORE, "time/total_timesteps"]
    assert json.loads((run.folder / "tracking.json").read_text())["id"] == "abc"


@pytest.mark.parametrize(
    ("name", "answer"),
    [("wandb:abc", "must be entity/project/run id"), ("wandb:me/poles/other", "W&B: .*\n.*wandb login")],
)
def test_a_run_that_does_not_exist_is_a_mistake(server, name, answer, tmp_path):
    with pytest.raises(ValueError, match=answer):
        find_run(name, tmp_path)
    assert list(tmp_path.iterdir()) == []


class Api:
    """Stands in for ``wandb.Api``: a run with a model."""

    def __init__(self, config=CONFIG, artifacts=()):
        run = {"id": "abc", "url": "https://wandb.ai/me/poles/runs/abc", "state": "crashed", "config": config}
        self._run = SimpleNamespace(**run, scan_history=lambda: ROWS, logged_artifacts=lambda: artifacts)

    def artifact_exists(self, name, type):
        return False

    def run(self, path):
        return self._run


class Model:
    type, size = "model", 1000

    def __init__(self, **files):
        self._files = files

    def download(self, root):
        for name, content in self._files.items():
            Path(root, name).write_text(content)
        return root


def test_its_model_is_there_to_be_played(tmp_path):
    model = Model(**{"best_model.zip": "weights", "config.yml": "n_steps: 8", "args.yml": "algo: ppo"})
    folder = fetch_run("wandb:me/poles/abc", tmp_path, Api(artifacts=[model]))
    assert (folder / "best_model.zip").read_text() == "weights"
    assert (folder / "CartPole-v1" / "config.yml").read_text() == "n_steps: 8"


@pytest.mark.parametrize("config", [{"algo": "../up", "env": "x"}, {"algo": "ppo", "env": ".."}])
def test_a_config_can_not_choose_a_folder_outside(config, tmp_path):
    with pytest.raises(UsageError, match="plain name"):
        fetch_run("wandb:me/poles/abc", tmp_path / "logs", Api(config))
    assert list(tmp_path.iterdir()) == []


def test_wandb_has_what_is_called():
    """The stand-in above can't tell."""
    assert list(inspect.signature(wandb.Api.artifact_exists).parameters) == ["self", "name", "type"]
    for owner, names in (
        (wandb.apis.public.Run, ("scan_history", "logged_artifacts", "config", "state", "url", "id")),
        (wandb.Artifact, ("download", "size", "type")),
    ):
        assert all(hasattr(owner, name) or name in inspect.getsource(owner) for name in names)
    assert "root" in inspect.signature(wandb.Artifact.download).parameters
