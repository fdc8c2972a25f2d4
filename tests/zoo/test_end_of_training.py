"""How a training of RL Zoo's ends: what is saved first, and what SIGTERM and SIGHUP do."""

import argparse
import json
import os
import signal
from pathlib import Path

import pytest
import rl_zoo3.train  # noqa: F401  puts the extended ExperimentManager in place
from rl_zoo3 import exp_manager
from stable_baselines3.common.callbacks import BaseCallback
from zoo_in_process import enjoy, train

from sb3_ext import PPOExt
from sb3_ext.common.usage_error import UsageError

ENV = "CartPole-v1"


class AtStep(BaseCallback):
    """Does something once."""

    def __init__(self, step, do):
        super().__init__()
        self._step, self._do = step, do

    def _on_step(self):
        if self.num_timesteps >= self._step:
            self._step = float("inf")
            self._do()
        return True


def set_up(folder, ext=None, n_timesteps=64, **kwargs):
    hyperparams = {"n_envs": 2, "n_steps": 8, "batch_size": 16, "ext": {"report": {"plots": False}, **(ext or {})}}
    settings = {"n_timesteps": n_timesteps, "hyperparams": hyperparams, "log_interval": -1, "verbose": 1, **kwargs}
    arguments = argparse.Namespace(num_threads=1)
    manager = exp_manager.ExperimentManager(arguments, "ppo_ext", ENV, str(folder), **settings)
    model, _ = manager.setup_experiment()
    return manager, model, Path(manager.save_path)


@pytest.fixture
def handlers():
    """SIGTERM and SIGHUP have their default action before a training and after it."""
    which = (signal.SIGTERM, signal.SIGHUP)
    before = [signal.signal(number, signal.SIG_DFL) for number in which]
    yield
    assert [signal.getsignal(number) for number in which] == [signal.SIG_DFL] * 2
    for number, handler in zip(which, before, strict=True):
        signal.signal(number, handler)


@pytest.mark.parametrize(
    ("ext", "which"),
    [
        ({}, signal.SIGTERM),
        ({"vec_env": "multicore", "native": False}, signal.SIGHUP),
        ({"stop_signals": ["USR1"]}, signal.SIGUSR1),
    ],
    ids=["native", "multicore", "chosen"],
)
def test_a_signal_ends_a_training_as_ctrl_c_does(tmp_path, handlers, capsys, ext, which):
    rule = {"always": {"metric": "time/total_timesteps", "above": 1, "window": 1}}
    manager, model, run = set_up(tmp_path, {"alerts": {"add": rule}, **ext}, 100_000, eval_freq=-1)
    manager.callbacks.append(AtStep(64, lambda: os.kill(os.getpid(), which)))
    with pytest.raises(SystemExit) as exit_:
        manager.learn(model)
        manager.save_trained_model(model)
    assert exit_.value.code == 128 + which
    last_line = capsys.readouterr().out.splitlines()[-1]
    assert last_line == f"interrupted at 64 steps (state saved at 0); continue with: sb3-ext resume {run}"
    training = json.loads((run / "run.json").read_text())
    assert (training["state"], training["signal"], training["steps"]) == ("interrupted", which.name, 64)
    assert training["env_id"] == ENV
    assert (
        f"**Training was interrupted** after 64 steps of 100,000 by `{which.name}`" in (run / "report.md").read_text()
    )
    assert PPOExt.load(run / f"{ENV}.zip").num_timesteps == PPOExt.load(run / "last_model.zip").num_timesteps == 64
    (alert,) = [alert for alert in json.loads((run / "alerts.json").read_text()) if alert["id"] == "always"]
    assert (alert["count"], alert["last_step"]) == (3, 48)


def test_a_worker_that_was_killed_is_named_without_a_traceback(tmp_path, monkeypatch):
    monkeypatch.setattr("sb3_ext.vec_env.multicore.usable_cores", lambda: 2)
    manager, model, run = set_up(tmp_path, {"vec_env": "multicore", "native": False}, 100_000, eval_freq=-1)
    process = model.get_env().unwrapped._workers[0].process
    pid = process.pid
    manager.callbacks.append(AtStep(32, process.kill))
    with pytest.raises(SystemExit) as exit_:
        manager.learn(model)
    died, then = exit_.value.code.splitlines()
    assert died == f"The worker process of environments 1 to 1 (pid {pid}) was ended by SIGKILL (out of memory?)."
    assert then == f"continue with: sb3-ext resume {run}"
    assert json.loads((run / "run.json").read_text())["error"] == f"WorkerDied: {died}"


class FinalModel(BaseCallback):
    """Remembers whether RL Zoo had saved the final model when callbacks are told of the end."""

    def __init__(self, path):
        super().__init__()
        self._path = path
        self.was_there = None

    def _on_step(self):
        return True

    def _on_training_end(self):
        self.was_there = PPOExt.load(self._path).num_timesteps == self.num_timesteps


def test_the_final_model_is_saved_before_any_other_callback_is_told_of_the_end(tmp_path, capsys):
    manager, model, run = set_up(tmp_path, n_timesteps=32)
    watch = FinalModel(run / f"{ENV}.zip")
    manager.callbacks.insert(1, watch)
    manager.learn(model)
    assert watch.was_there
    manager.save_trained_model(model)
    assert capsys.readouterr().out.count("Saving to") == 1
    manager.save_trained_model(model)
    assert capsys.readouterr().out.count("Saving to") == 1


def test_a_report_that_fails_does_not_lose_the_model(tmp_path, monkeypatch):
    def fails(*args, **kwargs):
        assert (run / f"{ENV}.zip").is_file()
        raise MemoryError

    manager, model, run = set_up(tmp_path, n_timesteps=32)
    monkeypatch.setattr("sb3_ext.callbacks.report.write_report", fails)
    with pytest.warns(UserWarning, match="There is no report in .*MemoryError"):
        manager.learn(model)
    manager.save_trained_model(model)
    assert (run / f"{ENV}.zip").is_file()


def test_a_training_that_fails_has_no_final_model(tmp_path, handlers):
    def fails():
        raise ValueError("no more")

    manager, model, run = set_up(tmp_path)
    manager.callbacks.append(AtStep(16, fails))
    with pytest.raises(ValueError, match="no more"):
        manager.learn(model)
    assert not (run / f"{ENV}.zip").exists()
    assert json.loads((run / "run.json").read_text())["state"] == "failed"


def test_enjoy_plays_the_last_model_of_a_training_that_was_killed(tmp_path, capsys):
    train(f"--algo ppo_ext --env {ENV} -f . -n 64 --eval-freq -1", tmp_path)
    (tmp_path / "ppo_ext" / f"{ENV}_1" / f"{ENV}.zip").unlink()
    enjoy(f"--algo ppo_ext --env {ENV} -f . -n 20", tmp_path)
    said = capsys.readouterr().out
    assert "The training did not end, so there is no final model: playing ppo_ext/CartPole-v1_1/last_model.zip" in said


def test_enjoy_says_that_a_run_without_a_model_can_be_resumed(tmp_path):
    run = tmp_path / "ppo_ext" / f"{ENV}_1"
    run.mkdir(parents=True)
    (run / "resume.zip").touch()
    with pytest.raises(UsageError, match=r"has no model to play: .* sb3-ext resume ppo_ext/CartPole-v1_1$"):
        enjoy(f"--algo ppo_ext --env {ENV} -f .", tmp_path)


def test_a_run_says_how_it_ended_without_a_report_too(tmp_path):
    manager, model, run = set_up(tmp_path, {"report": False}, n_timesteps=32)
    manager.learn(model)
    facts = json.loads((run / "run.json").read_text())
    assert (facts["state"], facts["steps"], facts["algo"]) == ("finished", 32, "ppo_ext")
    assert facts["hyperparams"]["n_steps"] == 8
    assert not (run / "report.md").exists()


def test_callbacks_that_a_stock_section_names_hear_of_ctrl_c(tmp_path):
    def interrupts():
        raise KeyboardInterrupt

    callback = {"sb3_ext.callbacks.Report": {"folder": str(tmp_path), "plots": False}}
    hyperparams = {"n_envs": 2, "n_steps": 8, "batch_size": 16, "callback": callback}
    settings = {"n_timesteps": 64, "hyperparams": hyperparams, "log_interval": -1}
    manager = exp_manager.ExperimentManager(argparse.Namespace(), "ppo", ENV, str(tmp_path), **settings)
    model, _ = manager.setup_experiment()
    manager.callbacks.append(AtStep(16, interrupts))
    manager.learn(model)
    assert json.loads((tmp_path / "run.json").read_text())["state"] == "interrupted"
    assert "**Training was interrupted**" in (tmp_path / "report.md").read_text()
