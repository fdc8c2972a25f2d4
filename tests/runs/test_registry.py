"""The file that lists the runs of a log folder."""

import json
import shutil
import subprocess
import sys
import warnings

import pytest
from registered_runs import add_run, facts_of
from report_folders import zoo_run

from sb3_ext.runs.registry import REGISTRY_FILE, Registry

#: Ten writers, each with its own lock
WRITERS = """
import sys, threading
from sb3_ext.runs.registry import Registry
def write(name):
    Registry(sys.argv[1]).update(f"{sys.argv[1]}/ppo/{name}", {"id": name, "state": "finished"})
threads = [threading.Thread(target=write, args=(f"{sys.argv[2]}_{i}",)) for i in range(10)]
[thread.start() for thread in threads], [thread.join() for thread in threads]
"""


def folders(registry):
    return [entry["folder"] for entry in registry.entries()]


def test_runs_are_listed_newest_first_and_a_new_entry_of_a_run_replaces_its_old_one(tmp_path):
    for number in (1, 2, 3):
        add_run(tmp_path, f"ppo_ext/CartPole-v1_{number}", state="running")
    add_run(tmp_path, "ppo_ext/CartPole-v1_2", score=7.0)
    registry = Registry(tmp_path)
    assert folders(registry) == [f"ppo_ext/CartPole-v1_{number}" for number in (3, 2, 1)]
    assert [entry["score"] for entry in registry.entries()] == [None, 7.0, None]
    assert len((tmp_path / REGISTRY_FILE).read_text().splitlines()) == 3


def test_a_folder_that_is_used_again_is_a_new_run(tmp_path):
    add_run(tmp_path, "ppo/A_1", id="old")
    add_run(tmp_path, "ppo/B_1", id="other")
    add_run(tmp_path, "ppo/A_1", id="new")
    assert [entry["id"] for entry in Registry(tmp_path).entries()] == ["new", "other"]


def test_fifty_writers_at_once_lose_no_entry(tmp_path):
    programs = [subprocess.Popen([sys.executable, "-c", WRITERS, str(tmp_path), str(i)]) for i in range(5)]
    assert [program.wait(timeout=120) for program in programs] == [0] * 5
    entries = [json.loads(line)["id"] for line in (tmp_path / REGISTRY_FILE).read_text().splitlines()]
    assert sorted(entries) == sorted(f"{i}_{j}" for i in range(5) for j in range(10))


@pytest.mark.parametrize(
    "line",
    [
        "{",
        "[]",
        "3",
        "null",
        '{"id": "x"}',
        '{"folder": 3}',
        '{"folder": "ppo/A_1", "score": "high"}',
        "\x00",
        "[" * 9999,
    ]
    + [f'{{"folder": "{place}"}}' for place in ("/etc", "../elsewhere", "ppo/../../elsewhere")],
)
def test_a_broken_line_is_named_with_the_command_that_rebuilds_and_the_others_stay(tmp_path, line):
    add_run(tmp_path, "ppo/A_1")
    add_run(tmp_path, "ppo/A_2")
    file = tmp_path / REGISTRY_FILE
    first, second = file.read_text().splitlines()
    file.write_text(f"{first}\n{line}\n{second}\n")
    message = f"Line 2 of {file} can't be read. To rebuild the file: sb3-ext runs -f {tmp_path} --rebuild"
    with pytest.warns(UserWarning) as warned:
        assert folders(Registry(tmp_path)) == ["ppo/A_2", "ppo/A_1"]
    assert [str(warning.message) for warning in warned] == [message]
    add_run(tmp_path, "ppo/A_3")
    assert file.read_text().splitlines()[1:] == [first, line, second]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert [entry["folder"] for entry in Registry(tmp_path).rebuild()] == ["ppo/A_3", "ppo/A_2", "ppo/A_1"]


def test_a_rebuilt_file_is_the_same_as_before(tmp_path):
    for number, score in ((1, 3.0), (2, None), (10, 5.5)):
        add_run(tmp_path, f"ppo_ext/CartPole-v1_{number}", score=score)
    before = (tmp_path / REGISTRY_FILE).read_text()
    (tmp_path / REGISTRY_FILE).unlink()
    Registry(tmp_path).rebuild()
    assert (tmp_path / REGISTRY_FILE).read_text() == before


def test_runs_without_run_json_are_found_and_a_rebuild_reads_their_scores(tmp_path):
    zoo_run(tmp_path / "ppo" / "CartPole-v1_4", scores=[480.0, 490.0], algo="ppo")
    registry = Registry(tmp_path)
    (found,) = registry.entries()
    assert (found["folder"], found["algo"], found["env"]) == ("ppo/CartPole-v1_4", "ppo", "CartPole-v1")
    assert found["started"] is not None and found["score"] is None and found["state"] is None
    (rebuilt,) = registry.rebuild()
    assert (rebuilt["score"], rebuilt["threshold"], rebuilt["solved"]) == (490.0, 475.0, True)
    assert (rebuilt["seed"], rebuilt["steps"]) == (7, 100_000)


def test_runs_outside_of_rl_zoo_are_found_in_their_folders(tmp_path):
    for name in ("mine", "a/b/c"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "run.json").write_text(json.dumps(facts_of(id=name[0], score=1.0)))
    assert {entry["id"]: entry["folder"] for entry in Registry(tmp_path).entries()} == {"m": "mine", "a": "a/b/c"}


def test_a_deleted_folder_is_no_run(tmp_path):
    add_run(tmp_path, "ppo/A_1")
    shutil.rmtree(add_run(tmp_path, "ppo/A_2"))
    assert folders(Registry(tmp_path)) == ["ppo/A_1"]


def test_a_run_whose_process_is_gone_was_killed_unless_its_folder_says_how_it_ended(tmp_path):
    add_run(tmp_path, "ppo/A_1", state="running", pid=2**22 + 1)
    ended = add_run(tmp_path, "ppo/A_2", state="running", pid=2**22 + 1)
    (ended / "run.json").write_text(json.dumps(facts_of(id="A_2", state="finished")))
    assert [entry["state"] for entry in Registry(tmp_path).entries()] == ["finished", "killed"]
