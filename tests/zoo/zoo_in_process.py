"""RL Zoo's commands in the process of the tests: starting an interpreter takes longer than a small training."""

import shlex
import sys

import pytest
import rl_zoo3.enjoy
import rl_zoo3.train  # puts the extended ExperimentManager in place

__all__ = ["enjoy", "train"]


def train(arguments, folder):
    """
    :param arguments: of the command line
    :param folder: where to run it
    """
    _run(rl_zoo3.train.train, arguments, folder)


def enjoy(arguments, folder):
    """As ``train``, without a window."""
    _run(rl_zoo3.enjoy.enjoy, f"{arguments} --no-render", folder)


def _run(command, arguments, folder):
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr(sys, "argv", [f"rl_zoo3.{command.__name__}", *shlex.split(arguments), "--num-threads", "1"])
        command()
