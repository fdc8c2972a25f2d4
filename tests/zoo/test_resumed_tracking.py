"""A resumed training continues its run on Weights & Biases or MLflow."""

import mlflow
import pytest
import wandb
import yaml
from trackers import mlflow_backend
from wandb_offline import offline, read_runs
from zoo_in_process import train

from sb3_ext.cli import main


def write_section(folder, ext):
    section = {"policy": "MlpPolicy", "n_steps": 16, "n_envs": 2, "batch_size": 16, "n_epochs": 1, "n_timesteps": 64}
    section["ext"] = {"table": False, "report": False, **ext}
    (folder / "section.yml").write_text(yaml.safe_dump({"CartPole-v1": section}))


@pytest.mark.parametrize(("ext", "flag"), [({"tracking": True}, ""), ({}, "--track")])
def test_a_resumed_training_continues_its_run_on_wandb(tmp_path, monkeypatch, ext, flag):
    write_section(tmp_path, ext)
    for name in ("WANDB_RUN_ID", "WANDB_RESUME"):
        monkeypatch.setenv(name, "")  # so that they are gone after the test
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    with offline(tmp_path):
        train(f"--algo ppo_ext --env CartPole-v1 -n 64 --eval-freq -1 -conf section.yml {flag}", tmp_path)
        wandb.teardown()  # it reads the environment once in a process
        assert main(["resume", "@last", "-n", "128"]) == 0
        wandb.teardown()
    first, second = read_runs(tmp_path)
    assert first.run_id == second.run_id
    steps = [[row["time/total_timesteps"] for row in run.rows_with("time/total_timesteps")] for run in (first, second)]
    assert max(steps[0]) == 64 < min(steps[1]) and max(steps[1]) == 128


def test_a_resumed_training_continues_its_run_on_mlflow(tmp_path):
    write_section(tmp_path, {"tracking": "mlflow"})
    with mlflow_backend(tmp_path):
        train("--algo ppo_ext --env CartPole-v1 -n 64 --eval-freq -1 -conf section.yml", tmp_path)
        assert main(["resume", "@last", "-n", "128"]) == 0
        client = mlflow.MlflowClient()
        (run,) = client.search_runs([client.get_experiment_by_name("sb3").experiment_id])
        history = client.get_metric_history(run.info.run_id, "time/vec_steps")
    assert {metric.step for metric in history} == {32, 64, 96, 128}
    assert run.info.status == "FINISHED" and run.data.tags["changed.total_timesteps"] == "128"
