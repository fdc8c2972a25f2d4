"""What only MLflow has: experiments, addresses, names that it refuses, and a server that does not answer."""

import json

import mlflow
import numpy as np
import pytest
from matplotlib.figure import Figure as MatplotlibFigure
from mlflow.protos.databricks_pb2 import INVALID_PARAMETER_VALUE, TEMPORARILY_UNAVAILABLE
from mlflow_server import mlflow_server
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.logger import Figure, Image
from tracked_training import ROLLOUT, make_model
from trackers import mlflow_backend

from sb3_ext.callbacks.tracking import mlflow_tracker
from sb3_ext.callbacks.tracking.callback import Tracking
from sb3_ext.callbacks.tracking.options import TrackingOptions
from sb3_ext.common.options import read_options
from sb3_ext.common.usage_error import UsageError
from sb3_ext.runs.wandb_run import tracking_environment
from sb3_ext.zoo.options import read_ext

LENGTH = "rollout/ep_len_mean"


@pytest.fixture(scope="module")
def backend(tmp_path_factory):
    with mlflow_backend(tmp_path_factory.mktemp("mlflow")) as backend:
        yield backend


def run_of(notes):
    (experiment,) = [one for one in mlflow.MlflowClient().search_experiments() if one.name == notes]
    (run,) = mlflow.MlflowClient().search_runs([experiment.experiment_id])
    return run


def test_a_run_is_in_its_experiment_under_its_name_with_tags_and_without_histograms(backend, tmp_path):
    options = {"experiment": "poles", "name": "first", "tags": ["wind", "big"], "notes": "why"}
    make_model().learn(ROLLOUT, callback=Tracking(str(tmp_path), to="mlflow", **options))
    run = run_of("poles")
    assert run.info.run_name == "first" and run.data.tags["tags"] == "wind, big"
    assert run.data.tags["mlflow.note.content"] == "why" and run.data.tags["mlflow.user"]
    assert not [name for name in run.data.metrics if name.startswith(("gradients/", "weights/"))]
    written = json.loads((tmp_path / "tracking.json").read_text(encoding="utf-8"))
    assert (written["tracker"], written["id"], written["algo"]) == ("mlflow", run.info.run_id, "ppo")
    assert not (tmp_path / "dashboard.json").exists()
    assert tracking_environment(tmp_path) == {}, "W&B would continue a run that it does not have"


class Odd(BaseCallback):
    """Names that MLflow refuses, pictures, and what MLflow can't show."""

    def _on_step(self):
        return True

    def _on_rollout_end(self):
        for name in ("reward[0]", "a//b", "../up", "x" * 300):
            self.logger.record(name, 1.5)
        self.logger.record("text", "words", exclude="tensorboard")
        self.logger.record("plot", Figure(MatplotlibFigure(), close=True), exclude=("stdout", "log", "json", "csv"))
        pixels = np.zeros((3, 4, 5), np.uint8)
        self.logger.record("picture", Image(pixels, "CHW"), exclude=("stdout", "log", "json", "csv"))


def test_any_name_and_pictures_are_logged(backend):
    make_model().learn(ROLLOUT, callback=[Odd(), Tracking(to="mlflow", experiment="odd")])
    run = run_of("odd")
    assert {"reward_0_", "a/b", "up", "x" * 250} <= set(run.data.metrics)
    paths = [file.path for name in ("figures", "images") for file in list_files(run, name)]
    assert "figures/plot-step-128.png" in paths and any(path.endswith(".png") for path in paths[1:])


class Twice(BaseCallback):
    """Several rows at one step."""

    def _on_step(self):
        return True

    def _on_rollout_end(self):
        for value in (3.0, 1.0, 1.0, 2.0):
            self.logger.record("value", value)
            self.logger.dump(self.num_timesteps)


def test_rows_of_one_step_within_a_millisecond_are_all_kept_in_their_order(backend, monkeypatch):
    monkeypatch.setattr(mlflow_tracker.time, "time", lambda: 1e9)
    make_model().learn(ROLLOUT, callback=[Twice(), Tracking(to="mlflow", notes="twice")])
    assert backend.runs("twice")[0].curves["value"] == [(ROLLOUT, value) for value in (3.0, 1.0, 1.0, 2.0)]


def list_files(run, folder):
    return mlflow.MlflowClient().list_artifacts(run.info.run_id, folder)


@pytest.mark.parametrize(
    ("code", "message", "kept"),
    [
        (TEMPORARILY_UNAVAILABLE, "Part of the run was not sent to MLflow: MlflowException: no", [1, 2, 3]),
        (INVALID_PARAMETER_VALUE, "MLflow does not take some metrics: no", [2, 3]),
    ],
)
def test_what_a_server_does_not_take_is_a_warning_and_sent_later_if_that_helps(
    backend, monkeypatch, code, message, kept
):
    monkeypatch.setattr(mlflow_tracker, "_SEND_EVERY", 0.0)
    log_batch, failures = mlflow.MlflowClient.log_batch, [mlflow.MlflowException("no", error_code=code)]

    def fail_once(client, run_id, metrics=(), **others):
        if metrics and failures:
            raise failures.pop()
        log_batch(client, run_id, metrics, **others)

    monkeypatch.setattr(mlflow.MlflowClient, "log_batch", fail_once)
    experiment = f"failed {code}"
    with pytest.warns(UserWarning, match=message):
        make_model().learn(3 * ROLLOUT, callback=Tracking(to="mlflow", experiment=experiment))
    history = mlflow.MlflowClient().get_metric_history(run_of(experiment).info.run_id, LENGTH)
    assert sorted(metric.step // ROLLOUT for metric in history) == kept


def test_a_server_gets_the_run_and_its_page_is_in_the_run_folder(tmp_path):
    with mlflow_server() as (address, calls):
        make_model().learn(ROLLOUT, callback=Tracking(str(tmp_path), to="mlflow", uri=address, upload_mb=0))
    sent = [metric for path, content in calls if path == "runs/log-batch" for metric in content.get("metrics", ())]
    assert [(metric["step"], metric["value"] > 0) for metric in sent if metric["key"] == LENGTH] == [(ROLLOUT, True)]
    assert [content["status"] for path, content in calls if path == "runs/update"][-1] == "FINISHED"
    assert json.loads((tmp_path / "tracking.json").read_text())["url"] == f"{address}/#/experiments/7/runs/abc"


@pytest.mark.parametrize("uri", ["ftp://me:SECRET@host", "http://me:SECRET@127.0.0.1:9"])
def test_an_address_that_does_not_work_is_a_mistake(uri, monkeypatch, tmp_path):
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match=r"(?s)^MLflow: .*MLFLOW_TRACKING_URI") as raised:
        make_model().learn(ROLLOUT, callback=Tracking(to="mlflow", uri=uri))
    assert "SECRET" not in str(raised.value)


def test_without_mlflow_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setattr(mlflow_tracker, "find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"pip install 'sb3-ext\[mlflow\]'"):
        Tracking(to="mlflow")


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ({"to": "mlflow", "project": "p"}, "project is an option of wandb, and not of mlflow: use experiment"),
        ({"to": "mlflow", "mode": "offline"}, "mode is an option of wandb, and not of mlflow"),
        ({"to": "mlflow", "gradients": 3}, "gradients is an option of wandb"),
        ({"experiment": "e"}, "experiment is an option of mlflow, and not of wandb: use project"),
        ({"uri": "sqlite:///x.db"}, "uri is an option of mlflow"),
        ({"to": "mlfow"}, "to='mlfow' must be 'wandb' or 'mlflow': did you mean 'mlflow'?"),
    ],
)
def test_options_of_the_other_tracker_are_refused(written, message):
    with pytest.raises(ValueError, match=message):
        read_options(TrackingOptions, written, "tracking")


def test_a_config_may_have_only_the_name_of_the_tracker(monkeypatch):
    monkeypatch.delenv("MLFLOW_EXPERIMENT_NAME", raising=False)
    options = read_ext({"tracking": "mlflow"}).tracking
    assert (options.to, options.gradients, options.dashboard) == ("mlflow", 0, False)
    assert options.chosen_experiment == "sb3"
    monkeypatch.setenv("MLFLOW_EXPERIMENT_NAME", "from-outside")
    assert options.chosen_experiment == "from-outside"
    assert read_ext({"tracking": "wandb"}).tracking == TrackingOptions()
    with pytest.raises(UsageError, match="ext: tracking: to='landers' must be 'wandb' or 'mlflow'"):
        read_ext({"tracking": "landers"})
