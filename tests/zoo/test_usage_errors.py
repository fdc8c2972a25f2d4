"""Mistakes in the command line of RL Zoo's commands get a message, and exit code 2 instead of a traceback."""

import sys

import pytest
import wandb
from zoo_in_process import enjoy, train

from sb3_ext.common.usage_error import UsageError
from sb3_ext.zoo.commands import patch_excepthook

COMMAND = "python -m rl_zoo3.train --algo {} --env CartPole-v1".split()


@pytest.fixture
def hook(monkeypatch):
    """Installs the hook for a command line, and returns what Python calls for an exception that nobody caught."""

    def install(algo):
        monkeypatch.setattr(sys, "excepthook", sys.__excepthook__)
        patch_excepthook([word.format(algo) for word in COMMAND])
        return sys.excepthook

    return install


@pytest.mark.parametrize("error", [UsageError("no such file"), wandb.errors.UsageError("no such file")])
def test_a_mistake_ends_the_command_without_a_traceback(hook, error, capsys):
    with pytest.raises(SystemExit) as end:
        hook("ppo_ext")(type(error), error, None)
    assert end.value.code == 2
    said = capsys.readouterr().err
    assert "no such file" in said and "Traceback" not in said and len(said.splitlines()) <= 2


def test_other_errors_keep_their_traceback(hook, capsys):
    hook("ppo_ext")(ValueError, ValueError("a bug"), None)
    assert "ValueError: a bug" in capsys.readouterr().err


def test_commands_of_stock_algorithms_stay_as_they_are(hook):
    assert hook("ppo") is sys.__excepthook__


def test_a_missing_hyperparameter_file_is_told_in_two_lines(tmp_path):
    with pytest.raises(UsageError) as error:
        train("--algo ppo_ext --env CartPole-v1 --conf-file nosuch.yml", tmp_path)
    first, second = str(error.value).splitlines()
    assert "nosuch.yml" in first and "--conf-file" in second


def test_a_missing_folder_is_told_in_two_lines(tmp_path):
    with pytest.raises(UsageError) as error:
        enjoy("--algo ppo_ext --env CartPole-v1 -f nologs", tmp_path)
    first, second = str(error.value).splitlines()
    assert "nologs" in first and "train one" in second


def test_without_a_login_to_wandb_no_run_folder_is_left_or_reported(tmp_path, monkeypatch, capsys):
    def init(**settings):
        raise wandb.errors.UsageError("No API key configured.")

    monkeypatch.setattr(wandb, "init", init)
    with pytest.raises(UsageError, match=r"(?s)No API key.*wandb login.*WANDB_MODE=offline"):
        train("--algo ppo_ext --env CartPole-v1 -n 64 -f logs -params ext:dict(tracking=True)", tmp_path)
    assert list((tmp_path / "logs/ppo_ext").glob("CartPole-v1_*")) == []
    assert "Report" not in capsys.readouterr().out
