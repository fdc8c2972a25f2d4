"""``sb3-ext bench``."""

import json

import pytest

from sb3_ext.cli import main


def test_the_table_compares_kinds_and_numbers_and_ends_with_lines_to_copy(capsys):
    assert main(["bench", "CartPole-v1", "--n-envs", "1", "4", "--kinds", "native", "dummy", "--seconds", "0.2"]) == 0
    said = capsys.readouterr()
    assert said.out.count("native ") >= 2 and said.out.count("dummy ") >= 2
    assert "n_envs: " in said.out and "ext: {native: " in said.out
    assert "1 of 4: native, n_envs 1: " in said.err, "nothing tells how far it is"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["bench", "CartPole-v1", "--n-envs", "0"], "must be positive"),
        (["bench", "CartPole-v1", "--seconds", "0"], "must be positive"),
    ],
)
def test_a_mistake_is_told_without_a_traceback(arguments, said, capsys):
    assert main(arguments) == 2
    assert said in capsys.readouterr().err


def test_an_unknown_environment_is_told_without_a_traceback(capsys):
    assert main(["bench", "CartPol-v1"]) == 2
    assert "CartPole" in capsys.readouterr().err


def test_help_teaches(capsys):
    with pytest.raises(SystemExit) as end:
        main(["bench", "--help"])
    assert end.value.code == 0
    assert "sb3-ext bench LunarLander-v3" in capsys.readouterr().out


def test_results_for_programs_are_sorted_by_speed(capsys):
    assert main(["bench", "CartPole-v1", "--n-envs", "1", "8", "--kinds", "native", "--seconds", "0.2", "--json"]) == 0
    first, second = json.loads(capsys.readouterr().out)
    assert first["steps_per_second"] > second["steps_per_second"] and first["ext"] == {"native": True}
