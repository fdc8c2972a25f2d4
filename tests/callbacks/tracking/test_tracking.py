"""What goes to Weights & Biases, read back from what it wrote in offline mode."""

import csv
import json
import math
import shlex
import sys
import time
import warnings

import numpy as np
import pytest
import wandb
from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.logger import configure
from tracked_training import ROLLOUT, Busy, make_model
from wandb_offline import offline, read_runs

from sb3_ext import PPOExt
from sb3_ext.callbacks.tracking.callback import Tracking
from sb3_ext.runs.run import Run
from sb3_ext.vec_env.multicore import MulticoreVecEnv

TIMESTEPS = "time/total_timesteps"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Where W&B puts its files, and no network is asked."""
    with offline(tmp_path_factory.mktemp("wandb")) as root:
        yield root


def runs_of(folder, notes):
    """W&B's service closes its file a moment after the run was finished."""
    for _ in range(300):
        runs = [run for run in read_runs(folder) if run.notes == notes]
        if runs and all(run.exit_code is not None for run in runs):
            break
        time.sleep(0.1)
    return runs


@pytest.fixture(scope="module")
def trained(folder):
    """A training with all of it: its run on W&B, and its run folder."""
    run_folder = folder / "logs" / "ppo_ext" / "CartPole-v1_1"
    (run_folder / "CartPole-v1").mkdir(parents=True)
    (run_folder / "CartPole-v1" / "config.yml").write_text("n_envs: 2\n")
    (run_folder / "replay_buffer.pkl").write_bytes(bytes(3_000_000))
    tracking = Tracking(
        str(run_folder),
        project="landers",
        group="ablation",
        tags=["wind"],
        notes="all of it",
        gradients=3,
        upload_mb=2,
    )
    model = make_model(PPOExt, learning_rate="lin_0.001")
    model.set_logger(configure(str(run_folder), ["csv"]))
    started = [run.notes for run in read_runs(folder)]
    assert wandb.run is None and "all of it" not in started, "a run is there before training starts"
    model.learn(6 * ROLLOUT, callback=[Busy(run_folder, tracking), tracking])
    assert wandb.run is None
    (run,) = runs_of(folder, "all of it")
    return run, run_folder


def test_the_run_is_in_its_project_under_its_name_and_finished(trained):
    run, _ = trained
    assert (run.project, run.group, run.tags) == ("landers", "ablation", ["wind"])
    assert run.name == f"ppo_ext-{run.run_id}"
    assert run.exit_code == 0 and run.summary["end"] == "complete"


def test_the_config_says_how_to_do_it_again(trained):
    config = trained[0].config
    assert (config["algo"], config["env_id"], config["n_envs"], config["seed"]) == ("ppo_ext", "CartPole-v1", 2, 0)
    assert config["action_space"] == "Discrete(2)" and config["total_timesteps"] == 6 * ROLLOUT
    assert config["hyperparams"]["n_steps"] == ROLLOUT // 2
    assert "0.001" in str(config["hyperparams"]["learning_rate"]) and "0x" not in str(config["hyperparams"])
    assert config["normalize_obs"] and not config["normalize_reward"]
    assert {"stable-baselines3", "torch", "python"} <= set(config["versions"])
    assert config["command"] == shlex.join(sys.orig_argv)


def test_numbers_are_those_of_the_csv_file_at_their_true_steps(trained):
    run, run_folder = trained
    with (run_folder / "progress.csv").open() as file:
        rows = list(csv.DictReader(file))
    names = [name for name in rows[0] if name != TIMESTEPS]
    assert {"rollout/ep_rew_mean", "train/approx_kl", "train/n_updates", "time/iterations"} <= set(names)
    for name in names:
        in_file = [float(row[name]) for row in rows if row[name]]
        logged = [float(value) for _, value in run.curve(name)]
        np.testing.assert_allclose(logged, in_file, rtol=1e-12, err_msg=name)
    assert [step for step, _ in run.curve("rollout/ep_len_mean")] == [ROLLOUT * n for n in range(1, 7)]
    # The last update, which SB3 makes after its last row
    assert run.curve("train/approx_kl")[-1][0] == 6 * ROLLOUT and len(run.curve("train/approx_kl")) == 6


def test_the_x_axis_may_be_vec_steps(folder, tmp_path):
    model = make_model()
    Run.prepare(model, axis="vec_steps")
    tracking = Tracking(str(tmp_path), notes="by vec steps", upload_mb=0)
    model.learn(4 * ROLLOUT, callback=[Busy(tmp_path, tracking), tracking])
    (run,) = runs_of(folder, "by vec steps")
    assert run.step_metrics["*"] == "time/vec_steps" and run.step_metrics["eval/mean_reward"] == "eval/vec_step"
    assert [step for step, _ in run.curve("rollout/ep_len_mean", "time/vec_steps")] == [64, 128, 192, 256]
    assert run.curve("eval/mean_reward", "eval/vec_step") == [(64, 42.0)]
    sections = json.loads((tmp_path / "dashboard.json").read_text())["sections"]
    assert {panel["x"] for section in sections for panel in section["panels"]} == {"time/vec_steps", "eval/vec_step"}


def test_the_x_axis_is_timesteps_and_for_evaluations_the_step_of_their_weights(trained):
    run, _ = trained
    assert run.step_metrics["*"] == TIMESTEPS
    assert run.step_metrics["eval/mean_reward"] == "eval/step"
    assert run.curve("eval/mean_reward", "eval/step") == [(ROLLOUT, 42.0)]


def test_histograms_of_numbers_gradients_and_weights_are_there(trained):
    run, _ = trained
    assert all(sum(histogram["values"]) == 3 for _, histogram in run.curve("env/obs_hist"))
    gradients = run.curve("gradients/mlp_extractor.policy_net.0.weight")
    # Three times, each in the row after its update, and not after the last one
    assert [step for step, _ in gradients] == [3 * ROLLOUT, 5 * ROLLOUT]
    assert len(run.curve("weights/action_net.bias")) == 2
    assert all(sum(histogram["values"]) == 4 * 64 and histogram["_type"] == "histogram" for _, histogram in gradients)


def test_videos_and_models_are_logged_at_their_own_timesteps(trained):
    run, _ = trained
    ((step, video),) = run.curve("video/agent")
    assert step == 256 and video["_type"] == "video-file"
    assert not run.rows_with("video/half"), "a video that is still being written was logged"
    ((step, seconds),) = run.curve("time/best_model")
    assert step == 3 * ROLLOUT and 0 < seconds < 60


def test_alerts_are_sent_once_in_a_while(trained):
    assert trained[0].alerts == [("Dead ReLUs", "Lower the learning rate.", "WARN")]


def test_the_best_model_is_kept_with_statistics_and_config(trained):
    run, _ = trained
    (best,) = [artifact for artifact in run.artifacts if artifact.type == "model"]
    assert best.name == f"model-{run.run_id}" and "best" in best.aliases
    assert json.loads(best.metadata) == {"timesteps": 3 * ROLLOUT}
    files = {entry.path for entry in best.manifest.contents}
    assert files == {"best_model.zip", "best_model_vecnormalize.pkl", "config.yml"}


def test_the_run_folder_is_uploaded_without_what_is_too_large(trained):
    run, run_folder = trained
    (zipped,) = [artifact for artifact in run.artifacts if artifact.type == "run-folder"]
    assert json.loads(zipped.metadata)["left_out"] == ["replay_buffer.pkl (3.0 MB)"]
    assert zipped.name == f"run-{run.run_id}"
    assert json.loads((run_folder / "tracking.json").read_text())["id"] == run.run_id


def test_the_dashboard_is_written_beside_the_run(trained):
    _, run_folder = trained
    layout = json.loads((run_folder / "dashboard.json").read_text())
    panels = {
        metric: panel for section in layout["sections"] for panel in section["panels"] for metric in panel["metrics"]
    }
    assert panels["train/entropy_loss"]["low"] == pytest.approx(-math.log(2))
    assert panels["env/obs_hist"]["kind"] == "histogram"


def test_a_folder_that_only_the_logger_writes_to_is_not_uploaded(folder, tmp_path):
    model = make_model()
    model.set_logger(configure(str(tmp_path), ["csv"]))
    model.learn(ROLLOUT, callback=Tracking(notes="no folder"))
    (run,) = runs_of(folder, "no folder")
    assert not run.artifacts and [path.name for path in tmp_path.iterdir()] == ["progress.csv"]


def test_the_dashboard_needs_no_environment_that_is_still_open(folder, tmp_path):
    env = make_vec_env("CartPole-v1", 2, vec_env_cls=MulticoreVecEnv, vec_env_kwargs={"n_workers": 1})
    model = PPO("MlpPolicy", env, n_steps=ROLLOUT // 2, batch_size=64, n_epochs=1, device="cpu")
    tracking = Tracking(str(tmp_path), finish=False)
    model.learn(2 * ROLLOUT, callback=tracking)
    env.close()  # as RL Zoo does, before it saves the final model
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tracking.close()
    layout = json.loads((tmp_path / "dashboard.json").read_text(encoding="utf-8"))
    assert layout["title"] == "ppo on CartPole-v1"
    panels = [panel for section in layout["sections"] for panel in section["panels"]]
    assert {panel["high"] for panel in panels if panel["metrics"] == ["rollout/ep_len_mean"]} == {500.0}


def test_an_open_run_that_reads_tensorboard_gets_what_is_missing_and_nothing_twice(folder, tmp_path):
    # As sync_tensorboard=True does it, but that looks for the folder for ten seconds
    wandb.tensorboard.patch(root_logdir=str(tmp_path / "PPO_1"))
    opened = wandb.init(project="theirs", name="their-name", notes="given")
    try:
        model = make_model(tensorboard_log=str(tmp_path))
        with pytest.warns(UserWarning, match="project: not used, .* in project 'theirs'"):
            model.learn(3 * ROLLOUT, callback=Tracking(project="ours", tags=["more"]))
    finally:
        wandb.tensorboard.unpatch()
        opened.finish()
    (run,) = runs_of(folder, "given")
    assert (run.project, run.name, run.exit_code) == ("theirs", "their-name", 0)
    expected = [ROLLOUT * n for n in (1, 2, 3)]
    assert [step for step, _ in run.curve("rollout/ep_len_mean", "global_step")] == expected
    assert [step for step, _ in run.curve("time/iterations", "global_step")] == expected
    assert run.step_metrics["*"] == "global_step"
    assert run.tags == ["more"]
    assert run.config["env_id"] == "CartPole-v1"
