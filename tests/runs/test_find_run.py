"""Runs found by name."""

import pytest
from registered_runs import add_run
from report_folders import zoo_run

from sb3_ext.common.usage_error import UsageError
from sb3_ext.runs.find_run import find_run


@pytest.fixture
def logs(tmp_path):
    add_run(tmp_path, "ppo_ext/CartPole-v1_1", id="aaab1111", best_score=200.0, score=150.0)
    add_run(tmp_path, "ppo_ext/CartPole-v1_10", id="aaac2222", score=160.0)
    add_run(tmp_path, "ppo/CartPole-v1_1", id="bbbb3333", score=10.0)
    add_run(tmp_path, "ppo_ext/Pong-v5_2", id="cccc4444", score=-3.0)
    add_run(tmp_path, "reinforce/Pong-v5_1", id="dddd5555", state="failed")
    return tmp_path


@pytest.mark.parametrize(
    ("name", "folder"),
    {
        "@last": "reinforce/Pong-v5_1",
        "@last:CartPole-v1": "ppo/CartPole-v1_1",
        "@best:CartPole-v1": "ppo_ext/CartPole-v1_1",
        "@best:Pong-v5": "ppo_ext/Pong-v5_2",
        "bbbb3333": "ppo/CartPole-v1_1",
        "c": "ppo_ext/Pong-v5_2",
        "aaac": "ppo_ext/CartPole-v1_10",
        "ppo_ext/CartPole-v1_1": "ppo_ext/CartPole-v1_1",
        "ppo_ext/CartPole-v1_1/": "ppo_ext/CartPole-v1_1",
        "Pong-v5_2": "ppo_ext/Pong-v5_2",
        "reinf": "reinforce/Pong-v5_1",
    }.items(),
)
def test_a_run_is_found_by_name(logs, name, folder):
    assert find_run(name, logs) == logs / folder


def test_a_run_is_found_by_its_path_whatever_the_log_folder_is(logs, tmp_path_factory, monkeypatch):
    other = zoo_run(tmp_path_factory.mktemp("other") / "CartPole-v1_1")
    assert find_run(other, logs) == other
    monkeypatch.chdir(logs.parent)
    assert find_run(f"{logs.name}/ppo/CartPole-v1_1") == logs.relative_to(logs.parent) / "ppo/CartPole-v1_1"


def test_the_best_of_one_environment_needs_no_name_of_it(tmp_path):
    for number, score in ((1, 5.0), (2, 9.0), (3, None)):
        add_run(tmp_path, f"ppo/A_{number}", score=score)
    assert find_run("@best", tmp_path) == tmp_path / "ppo/A_2"


@pytest.mark.parametrize(
    ("name", "said"),
    {
        "@best": "different environments can't be compared. Choose one: @best:CartPole-v1, @best:Pong-v5",
        "@bset": "There is no run '@bset': did you mean '@best'?",
        "@best:CartPole": "has no run of CartPole: did you mean 'CartPole-v1'?",
        "CartPole-v1_1": "can be any of 2 runs in {}: ppo/CartPole-v1_1 (bbbb3333), ppo_ext/CartPole-v1_1 (aaab1111).",
        "aaa": "can be any of 2 runs",
        "ppo_ext/CartPol-v1_10": "in {}: did you mean 'ppo_ext/CartPole-v1_10'? To list them: sb3-ext runs -f {}",
        "zzz": "There is no run 'zzz' in {}. To list them: sb3-ext runs -f {}",
        "": "There is no run '' in {}",
    }.items(),
)
def test_a_name_that_no_run_has_or_several_have_is_an_error_that_helps(logs, name, said):
    with pytest.raises(UsageError) as error:
        find_run(name, logs)
    assert said.format(logs, logs) in str(error.value) and "\n" not in str(error.value)


def test_an_empty_log_folder_says_how_to_name_another(tmp_path):
    with pytest.raises(UsageError, match=r"has no runs.* -f FOLDER"):
        find_run("@last", tmp_path)


def test_a_folder_without_a_training_names_the_runs_in_it(logs):
    with pytest.raises(UsageError, match=r"has no files of a training itself. Runs in it"):
        find_run(logs / "ppo_ext", "elsewhere")


def test_the_best_among_runs_without_a_score_says_how_to_get_scores(tmp_path):
    add_run(tmp_path, "ppo/A_1")
    with pytest.raises(UsageError, match=r"no run in .* has a score.*sb3-ext runs --rebuild"):
        find_run("@best", tmp_path)
