"""Trainings end with the server, whatever ends it."""

import os
import signal
import subprocess
import sys
import time

import psutil
import pytest

from sb3_ext.common.usage_error import UsageError
from sb3_ext.mcp.trainings import Trainings


def is_gone(pid):
    return not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


def test_a_link_in_place_of_the_folder_for_output_is_refused(tmp_path):
    logs = tmp_path / "logs"
    logs.mkdir()
    (logs / "mcp").symlink_to(tmp_path, target_is_directory=True)
    with pytest.raises(UsageError, match="leads out of the log folder"):
        Trainings(logs, 1).start(["train"])


def test_a_training_that_does_not_end_is_killed_when_it_is_stopped_again(tmp_path, monkeypatch):
    monkeypatch.setattr("sb3_ext.mcp.trainings._STOP_SECONDS", 0.0)
    trainings = Trainings(tmp_path, 1)
    training = trainings.start(["train", "--env", "CartPole-v1", "-f", str(tmp_path)])
    os.kill(training.process.pid, signal.SIGSTOP)
    trainings.stop(training.name)
    assert training.is_running
    trainings.stop(training.name)
    assert training.process.returncode == -signal.SIGKILL


def test_trainings_end_when_the_server_ends(tmp_path):
    trainings = Trainings(tmp_path, 1)
    training = trainings.start(["train", "--env", "CartPole-v1", "-f", str(tmp_path)])
    trainings.close()
    assert training.process.returncode == -signal.SIGTERM
    assert trainings.status(training)["state"] == "stopped before it began"


def test_trainings_end_when_the_server_is_killed(tmp_path):
    program = (
        "import os, pathlib, signal, sys; from sb3_ext.mcp.trainings import Trainings; "
        "folder = sys.argv[1]; trainings = Trainings(pathlib.Path(folder), 1); "
        "started = trainings.start(['train', '--env', 'CartPole-v1', '-f', folder]); "
        "print(started.process.pid, flush=True); os.kill(os.getpid(), signal.SIGKILL)"
    )
    done = subprocess.run([sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True)
    pid = int(done.stdout)
    while not is_gone(pid):
        time.sleep(0.05)
    assert not (tmp_path / "ppo_ext").exists(), "it went on to train"
