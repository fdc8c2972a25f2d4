"""``sb3-ext completion``: which words can follow, and the script for bash."""

import shutil
import subprocess
import sys

import pytest
from conftest import PROJECT
from report_folders import zoo_run

from sb3_ext.cli import main
from sb3_ext.cli.completion import candidates
from sb3_ext.cli.main import COMMANDS
from sb3_ext.zoo.command_line import algorithms


@pytest.fixture
def logs(tmp_path, monkeypatch):
    zoo_run(tmp_path / "logs" / "ppo" / "CartPole-v1_1")
    zoo_run(tmp_path / "other" / "ppo" / "Acrobot-v1_1")
    monkeypatch.chdir(tmp_path)


def test_all_commands_are_completed():
    assert set(COMMANDS) <= set(candidates([""]))


@pytest.mark.parametrize("command", COMMANDS)
def test_the_options_of_every_command_are_completed(command):
    assert "--help" in candidates([command, "--h"])


@pytest.mark.parametrize(
    ("typed", "found"),
    [
        (["tra"], ["train"]),
        (["train", "--eval-f"], ["--eval-freq"]),
        (["train", "--algo", "ppo_l"], ["ppo_lstm_ext", "ppo_lstm"]),
        (["train", "--env", "LunarLanderContinuous-"], ["LunarLanderContinuous-v3"]),
        (["train", "--env", "Pong-v5_"], ["Pong-v5_objects"]),
        (["bench", "CartPole-"], ["CartPole-v1"]),
        (["train", "--vec-env", ""], ["dummy", "subproc"]),
        (["runs", "--state", "killed", "fa"], ["failed"]),
        (["train", "-n", ""], []),
        (["nosuch", ""], []),
        (["config", "ch"], ["check"]),
        (["config", "show", "CartPole-"], ["CartPole-v1"]),
    ],
)
def test_words_that_can_follow(typed, found):
    assert candidates(typed) == found


def test_runs_are_completed(logs):
    assert candidates(["report", ""]) == ["@last", "@best", "logs/ppo/CartPole-v1_1"]
    assert candidates(["enjoy", "-f", "other", "oth"]) == ["other/ppo/Acrobot-v1_1"]


def test_runs_and_environments_can_be_played(logs):
    found = candidates(["play", ""])
    assert {"@last", "logs/ppo/CartPole-v1_1", "CartPole-v1", "FrozenLake-v1"} <= set(found)


def test_all_algorithms_are_completed():
    assert candidates(["train", "--algo", ""]) == list(algorithms())


def test_nothing_slow_is_imported():
    code = "import sys; from sb3_ext.cli.completion import candidates as c; c(['train', '--env', '']); c(['plot', '']);"
    code += "print({'torch', 'gymnasium', 'numpy', 'yaml', 'rl_zoo3'} & set(sys.modules))"
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=PROJECT).stdout
    assert printed.strip() == "set()"


def test_two_dashes_list_the_options(capsys):
    assert main(["completion", "words", "--", "config", "check", "--"]) == 0
    assert "--algo" in capsys.readouterr().out.splitlines()


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash")
def test_the_script_works_in_bash(logs):
    script = f"""
        sb3-ext() {{ {sys.executable} -m sb3_ext "$@"; }}
        source <(sb3-ext completion bash)
        COMP_WORDS=(sb3-ext report lo) COMP_CWORD=2
        _sb3_ext
        printf '%s\\n' "${{COMPREPLY[@]}}"
        complete -p sb3-ext
    """
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, env={"PYTHONPATH": str(PROJECT)})
    assert done.stdout.splitlines() == ["logs/ppo/CartPole-v1_1", "complete -o default -F _sb3_ext sb3-ext"]
