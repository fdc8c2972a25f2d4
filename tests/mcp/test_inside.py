"""Only runs in the log folder are found."""

import pytest
from registered_runs import add_run

from sb3_ext.common.usage_error import UsageError
from sb3_ext.mcp.inside import find_inside


@pytest.fixture
def logs(tmp_path):
    add_run(tmp_path / "outside", "ppo/CartPole-v1_1")
    add_run(tmp_path / "logs", "ppo/CartPole-v1_1", id="abcd1234")
    return (tmp_path / "logs").resolve()


def test_a_run_is_found_by_its_names_and_by_its_path(logs, monkeypatch):
    run = logs / "ppo" / "CartPole-v1_1"
    monkeypatch.chdir(logs.parent)
    for name in (
        "@last",
        "@last:CartPole-v1",
        "abcd",
        "ppo/CartPole-v1_1",
        "CartPole-v1_1",
        str(run),
        f"logs/{run.parent.name}/{run.name}",
    ):
        assert find_inside(name, logs) == run


@pytest.mark.parametrize("name", ["outside/ppo/CartPole-v1_1", "../outside/ppo/CartPole-v1_1", "outside", "/"])
def test_a_folder_of_the_working_directory_is_not_looked_at(logs, monkeypatch, name):
    monkeypatch.chdir(logs.parent)
    with pytest.raises(UsageError) as raised:
        find_inside(name, logs)
    assert "Runs in it" not in str(raised.value)


@pytest.mark.parametrize("link", ["ppo/linked_1", "linked"])
def test_a_link_that_leads_outside_is_refused(logs, link):
    (logs / link).symlink_to(logs.parent / "outside" / ("ppo/CartPole-v1_1" if "/" in link else "ppo"))
    with pytest.raises(UsageError, match="not in the log folder"):
        find_inside(link if "/" in link else f"{link}/CartPole-v1_1", logs)


def test_a_link_to_a_run_inside_is_followed(logs):
    (logs / "favourite").symlink_to(logs / "ppo" / "CartPole-v1_1")
    assert find_inside("favourite", logs) == logs / "ppo" / "CartPole-v1_1"


@pytest.mark.parametrize("place", ["best_model.zip", "CartPole-v1/config.yml"])
def test_a_run_with_a_file_that_is_a_link_outside_is_refused(logs, place):
    file = logs / "ppo" / "CartPole-v1_1" / place
    file.parent.mkdir(exist_ok=True)
    file.symlink_to(logs.parent / "outside" / "runs.jsonl")
    with pytest.raises(UsageError, match="leads out of the log folder"):
        find_inside("@last", logs)


def test_a_link_to_itself_is_refused(logs):
    (logs / "circle").symlink_to(logs / "circle")
    with pytest.raises(UsageError):
        find_inside("circle", logs)


def test_an_entry_of_the_registry_that_is_a_link_outside_is_refused(logs):
    add_run(logs, "ppo/CartPole-v1_2", id="linked")
    (logs / "ppo" / "CartPole-v1_2" / "run.json").unlink()
    (logs / "ppo" / "CartPole-v1_2").rmdir()
    (logs / "ppo" / "CartPole-v1_2").symlink_to(logs.parent / "outside" / "ppo" / "CartPole-v1_1")
    with pytest.raises(UsageError, match="leads out of the log folder"):
        find_inside("linked", logs)
