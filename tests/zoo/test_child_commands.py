"""The child processes of RL Zoo's benchmark and record_training run this Python."""

import subprocess
import sys
from types import SimpleNamespace

import pytest

from sb3_ext.zoo.commands import patch_child_commands


@pytest.fixture
def called(monkeypatch, tmp_path):
    """What is run in the end, without running it."""
    commands = []

    def call(command, **kwargs):
        commands.append(command)
        return 0

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(subprocess, "call", call)
    patch_child_commands()
    return commands


def call_from(module, command):
    namespace = {"__spec__": SimpleNamespace(name=module), "command": command}
    exec("import subprocess; subprocess.call(command)", namespace)


def test_benchmark_plays_with_this_python_and_the_installed_enjoy(called):
    call_from("rl_zoo3.benchmark", ["python", "enjoy.py", "--algo", "ppo"])
    assert called == [[sys.executable, "-m", "rl_zoo3.enjoy", "--algo", "ppo"]]


def test_record_training_records_each_video_once(called):
    for _ in range(2):
        call_from("rl_zoo3.record_training", ["python", "-m", "rl_zoo3.record_video", "--load-checkpoint", "200"])
    assert called == [[sys.executable, "-m", "rl_zoo3.record_video", "--load-checkpoint", "200"]]


def test_other_modules_start_what_they_ask_for(called):
    call_from("someone.else", ["python", "enjoy.py"])
    assert called == [["python", "enjoy.py"]]
