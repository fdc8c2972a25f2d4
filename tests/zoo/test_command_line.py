"""RL Zoo's options for our parsers: the same as in its own, without importing it."""

import argparse
import subprocess
import sys

import pytest
import rl_zoo3.enjoy
import rl_zoo3.train
from rl_zoo3.utils import ALGOS

from sb3_ext.cli.main import CommandParser
from sb3_ext.zoo.command_line import add_options, algorithms, options_of, typed_words


def parser_of(command, monkeypatch):
    """RL Zoo's own parser."""
    parsers = []

    def stop(parser, *args):
        parsers.append(parser)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(argparse.ArgumentParser, "parse_args", stop)
        command()
    return parsers[0]


def described(action):
    kind = action.type if action.type in (int, float) else None
    choices = None if action.choices is None else set(action.choices)
    return action.option_strings, action.dest, action.nargs, action.const, kind, choices


@pytest.mark.parametrize("command", [rl_zoo3.train.train, rl_zoo3.enjoy.enjoy], ids=lambda command: command.__name__)
def test_the_options_are_those_of_rl_zoos_parser(command, monkeypatch):
    theirs = parser_of(command, monkeypatch)
    ours = argparse.ArgumentParser()
    add_options(ours, command.__name__)
    assert [described(action) for action in ours._actions] == [described(action) for action in theirs._actions]
    defaults = [option.settings.get("default") for option in options_of(command.__name__)]
    assert defaults == [action.default for action in theirs._actions[1:]]


def test_the_algorithms_are_those_of_rl_zoo_and_ours():
    assert set(algorithms()) == set(ALGOS)


@pytest.mark.parametrize(
    "words",
    [
        "--algo ppo --env CartPole-v1 -n 500",
        "--eval-freq 25000 -params n_steps:4 gamma:0.9 --seed 0 -P --track",
        "--env-kwargs goal:-1 -tags a b --gym-packages x",
        "-optimize --n-trials 3 --storage sqlite:///s.db",
    ],
)
def test_rl_zoo_reads_what_was_typed(words, monkeypatch):
    ours = CommandParser()
    add_options(ours, "train")
    theirs = parser_of(rl_zoo3.train.train, monkeypatch)
    passed_on = typed_words("train", ours.parse_args(words.split()))
    assert theirs.parse_args(passed_on) == theirs.parse_args(words.split())


def test_what_was_not_typed_is_not_passed_on():
    parser = CommandParser()
    add_options(parser, "train")
    assert typed_words("train", parser.parse_args(["--eval-freq", "25000"])) == ["--eval-freq", "25000"]


@pytest.mark.parametrize("command", ["train", "enjoy"])
def test_the_options_are_known_without_torch(command):
    code = f"import sys; from sb3_ext.cli import main\ntry: main(['{command}', '--help'])\nexcept SystemExit: pass\n"
    code += "print({'torch', 'rl_zoo3', 'stable_baselines3', 'gymnasium'} & set(sys.modules))"
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout
    assert printed.splitlines()[-1] == "set()"
