"""What every tracker must do: the same rows at the same steps, the same files, and an end after success and failure."""

import csv
import subprocess
import sys

import numpy as np
import pytest
from stable_baselines3.common.logger import configure
from tracked_training import ROLLOUT, Busy, Fail, make_model
from trackers import BACKENDS

from sb3_ext import PPOExt
from sb3_ext.callbacks.alerts.callback import Alerts
from sb3_ext.callbacks.tracking.callback import Tracking
from sb3_ext.runs.run import Run

LENGTH = "rollout/ep_len_mean"


@pytest.fixture(scope="module", params=BACKENDS)
def backend(request, tmp_path_factory):
    with BACKENDS[request.param](tmp_path_factory.mktemp(request.param)) as backend:
        yield backend


@pytest.fixture(scope="module")
def trained(backend):
    """A training with all that can be tracked: its run, and its folder."""
    run_folder = backend.folder / "logs" / "ppo_ext" / "CartPole-v1_1"
    (run_folder / "CartPole-v1").mkdir(parents=True)
    (run_folder / "CartPole-v1" / "config.yml").write_text("storage: postgresql://me:SECRET@host/db\n")
    (run_folder / "replay_buffer.pkl").write_bytes(bytes(3_000_000))
    tracking = Tracking(str(run_folder), to=backend.key, notes="all of it", tags=["wind"], upload_mb=2)
    model = make_model(PPOExt, learning_rate="lin_0.001")
    model.set_logger(configure(str(run_folder), ["csv"]))
    assert not backend.has_open_run()
    model.learn(6 * ROLLOUT, callback=[Busy(run_folder, tracking), tracking])
    assert not backend.has_open_run()
    (run,) = backend.runs("all of it")
    return run, run_folder


def test_numbers_are_those_of_the_csv_file_at_their_true_steps(trained):
    run, run_folder = trained
    with (run_folder / "progress.csv").open() as file:
        rows = list(csv.DictReader(file))
    names = [name for name in rows[0] if name != "time/total_timesteps"]
    assert {"rollout/ep_rew_mean", "rollout/broken", "train/approx_kl", "time/iterations", "eval/step"} <= set(names)
    for name in names:
        in_file = [float(row[name]) for row in rows if row[name]]
        np.testing.assert_allclose([float(value) for _, value in run.curves[name]], in_file, rtol=1e-12, err_msg=name)
    assert [step for step, _ in run.curves[LENGTH]] == [ROLLOUT * n for n in range(1, 7)]
    # The last update, which SB3 makes after its last row
    assert [step for step, _ in run.curves["train/approx_kl"]][-1] == 6 * ROLLOUT


def test_evaluations_are_at_the_step_of_their_weights(trained):
    assert trained[0].curves["eval/mean_reward"] == [(ROLLOUT, 42.0)]


def test_the_x_axis_may_be_vec_steps(backend, tmp_path):
    model = make_model()
    Run.prepare(model, axis="vec_steps")
    tracking = Tracking(str(tmp_path), to=backend.key, notes="by vec steps", upload_mb=0)
    model.learn(3 * ROLLOUT, callback=[Busy(tmp_path, tracking), tracking])
    (run,) = backend.runs("by vec steps")
    assert [step for step, _ in run.curves[LENGTH]] == [64, 128, 192]
    assert run.curves["eval/mean_reward"] == [(64, 42.0)]


def test_the_config_says_how_to_do_it_again(trained):
    config = trained[0].config
    assert (config["algo"], config["env_id"], config["n_envs"], config["seed"]) == ("ppo_ext", "CartPole-v1", "2", "0")
    assert config["hyperparams.n_steps"] == str(ROLLOUT // 2) and config["action_space"] == "Discrete(2)"


def test_the_best_model_and_the_run_folder_are_uploaded_and_videos_and_times_logged(trained):
    run, _ = trained
    model = {f"model/{name}" for name in ("best_model.zip", "best_model_vecnormalize.pkl", "config.yml")}
    assert run.files == {*model, "run/run.zip"}
    assert run.videos == [("agent", 256)]
    ((step, seconds),) = run.curves["time/best_model"]
    assert step == 3 * ROLLOUT and 0 < seconds < 600


def test_no_password_is_uploaded(backend, trained):
    found = [path for path in backend.folder.rglob("*") if path.is_file() and b"SECRET" in path.read_bytes()]
    assert found == [trained[1] / "CartPole-v1" / "config.yml"]


def test_alerts_are_sent_once_in_a_while(trained):
    (alert,) = trained[0].alerts
    assert "Lower the learning rate." in alert


def test_a_complete_training_is_finished(trained):
    assert (trained[0].status, trained[0].end) == ("finished", "complete")


@pytest.mark.parametrize(
    ("error", "status", "end"),
    [(ValueError("broken"), "failed", "ValueError: broken"), (KeyboardInterrupt(), "interrupted", "interrupted")],
)
def test_a_run_is_finished_after_errors_and_ctrl_c(backend, error, status, end):
    notes = type(error).__name__
    with pytest.raises(type(error)), Tracking(to=backend.key, notes=notes) as tracking:
        make_model().learn(4 * ROLLOUT, callback=[tracking, Fail(error)])
    tracking.close()
    (run,) = backend.runs(notes)
    assert (run.status, run.end) == (status, end)
    assert [step for step, _ in run.curves[LENGTH]] == [ROLLOUT]
    assert not backend.has_open_run()


def test_ctrl_c_that_somebody_caught_and_a_run_that_nobody_closed_are_told_apart(backend):
    names = ("caught", "forgotten", "other")
    caught, forgotten, other = (Tracking(to=backend.key, notes=notes) for notes in names)
    with pytest.raises(KeyboardInterrupt):
        make_model().learn(4 * ROLLOUT, callback=[caught, Fail(KeyboardInterrupt())])
    caught.close()  # as RL Zoo's finally block
    with pytest.raises(ValueError):
        make_model().learn(4 * ROLLOUT, callback=[forgotten, Fail(ValueError())])
    make_model().learn(2 * ROLLOUT, callback=other)
    ends = {name: (run.status, len(run.curves["time/fps"])) for name in names for run in backend.runs(name)}
    assert ends == {"caught": ("interrupted", 1), "forgotten": ("failed", 1), "other": ("finished", 2)}


def test_a_run_that_stays_open_for_the_final_model_goes_on_in_the_next_training(backend, tmp_path):
    tracking = Tracking(str(tmp_path), to=backend.key, notes="open", finish=False)
    model = make_model()
    long = {"metric": LENGTH, "above": 1, "window": 1, "advice": "Stop it.", "severity": "hint"}
    alerts = Alerts(add={"long": long}, verbose=0)
    with pytest.warns(UserWarning, match="tracked already"):
        model.learn(ROLLOUT, callback=[alerts, tracking, Tracking(to=backend.key, notes="second")])
    model.learn(ROLLOUT, callback=[alerts, tracking], reset_num_timesteps=False)
    model.save(tmp_path / "last_model")
    tracking.close()
    (run,) = backend.runs("open")
    assert [step for step, _ in run.curves["time/fps"]] == [ROLLOUT, 2 * ROLLOUT]
    assert [step for step, _ in run.curves["time/last_model"]] == [2 * ROLLOUT]
    assert any("Stop it." in text for text in run.alerts)
    assert run.status == "finished"


def test_a_run_that_the_program_has_opened_is_continued_and_finished(backend):
    with backend.started("given") as run_id:
        with pytest.raises(KeyboardInterrupt), Tracking(to=backend.key, notes=None) as tracking:
            make_model().learn(4 * ROLLOUT, callback=[tracking, Fail(KeyboardInterrupt())])
        assert not backend.has_open_run()
    (run,) = backend.runs("given")
    assert (run.run_id, run.status, run.config["env_id"]) == (run_id, "interrupted", "CartPole-v1")
    assert [step for step, _ in run.curves[LENGTH]] == [ROLLOUT]


def test_a_program_that_dies_leaves_a_finished_run(backend):
    program = f"""
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import ConvertCallback
from sb3_ext.callbacks.tracking.callback import Tracking
tracking = Tracking(to={backend.key!r}, notes="dies")
PPO("MlpPolicy", "CartPole-v1", n_steps=64, device="cpu").learn(
    128, callback=[tracking, ConvertCallback(lambda local, _: local["self"].num_timesteps < 70 or 1 / 0)]
)
"""
    died = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert died.returncode == 1 and "ZeroDivisionError" in died.stderr
    (run,) = backend.runs("dies")
    assert (run.status, run.end) == ("failed", "ZeroDivisionError: division by zero")
    assert [step for step, _ in run.curves[LENGTH]] == [64]
