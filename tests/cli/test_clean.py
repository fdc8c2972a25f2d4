"""``sb3-ext clean``."""

import json
import os
import time

import pytest
from registered_runs import add_run, facts_of

from sb3_ext.cli import main
from sb3_ext.runs.leftovers import find_leftovers

GONE = {"state": "running", "pid": 2**22 + 1}


def clean(folder, *arguments):
    return main(["clean", "-f", str(folder), *arguments])


def age(folder):
    """As if nothing had changed for a day."""
    for path in (folder, *folder.rglob("*")):
        os.utime(path, (time.time() - 86_400,) * 2)


def checkpoint(run, step):
    (run / "checkpoints").mkdir(exist_ok=True)
    names = [f"rl_model_{step}_steps.zip", f"rl_model_vecnormalize_{step}_steps.pkl"]
    names += [f"checkpoints/rl_model_{step}_steps.{kind}" for kind in ("json", "csv", "state")]
    for name in names:
        (run / name).write_text("x")
    return names


@pytest.fixture
def logs(tmp_path):
    add_run(tmp_path, "ppo/Failed_1", state="failed")
    add_run(tmp_path, "ppo/Killed_1", **GONE)
    (add_run(tmp_path, "ppo/Model_1", **GONE) / "last_model.zip").write_text("x")
    add_run(tmp_path, "ppo/Good_1")
    add_run(tmp_path, "ppo/Interrupted_1", state="interrupted")
    (tmp_path / "ppo" / "Empty_1" / "Empty").mkdir(parents=True)
    (tmp_path / "ppo" / "Good_1" / ".unfinished-0-model.zip").write_text("half")
    age(tmp_path)
    running = add_run(tmp_path, "ppo/Running_1", state="running")
    (running / ".unfinished-0-model.zip").write_text("half")
    (running / "rl_model_1_steps.zip").write_text("x")
    # Last, because the next entry of the registry would remove it
    (tmp_path / ".unfinished-0-runs.jsonl").write_text("half")
    os.utime(tmp_path / ".unfinished-0-runs.jsonl", (time.time() - 86_400,) * 2)
    return tmp_path


def files(folder):
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*"))


def test_without_yes_it_lists_with_sizes_and_deletes_nothing(logs, capsys):
    before = files(logs)
    assert clean(logs) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(maxsplit=2)[2] for line in lines[:6]] == [
        "unfinished   ppo/Good_1: 1 file",
        "killed       ppo/Model_1 (has a model)",
        "killed       ppo/Killed_1",
        "failed       ppo/Failed_1",
        "empty        ppo/Empty_1",
        "unfinished   .unfinished-0-runs.jsonl: 1 file",
    ]
    assert lines[6] == f"Runs with a model are kept. To delete them too: sb3-ext clean killed -f {logs} --yes"
    assert lines[7].endswith(" in total. To delete them, add --yes") and len(lines) == 8
    assert files(logs) == before


def test_yes_deletes_what_was_listed_and_no_model_and_nothing_of_a_running_run(logs, capsys):
    assert clean(logs, "--yes") == 0
    assert sorted(path.name for path in (logs / "ppo").iterdir()) == ["Good_1", "Interrupted_1", "Model_1", "Running_1"]
    assert files(logs / "ppo" / "Good_1") == ["run.json"]
    assert files(logs / "ppo" / "Running_1") == [".unfinished-0-model.zip", "rl_model_1_steps.zip", "run.json"]
    assert not (logs / ".unfinished-0-runs.jsonl").exists()
    capsys.readouterr()
    assert clean(logs, "failed") == 0
    assert capsys.readouterr().out == f"Nothing to delete in {logs}.\n"


def test_a_kind_that_is_named_is_deleted_with_its_models_and_others_are_not(logs):
    assert clean(logs, "killed", "--yes") == 0
    assert not (logs / "ppo/Model_1").exists() and (logs / "ppo/Failed_1").exists() and (logs / "ppo/Empty_1").exists()


def test_old_checkpoints_go_with_all_that_belongs_to_them(tmp_path):
    run = add_run(tmp_path, "ppo/A_1")
    for name in ("best_model.zip", "last_model.zip"):
        (run / name).write_text("x")
    for step in (100, 200, 300):
        kept = checkpoint(run, step)
    assert clean(tmp_path, "checkpoints", "--yes") == 0
    assert files(run) == sorted(["run.json", "best_model.zip", "last_model.zip", "checkpoints", *kept])
    checkpoint(run, 400)
    assert clean(tmp_path, "checkpoints", "--keep", "2", "--yes") == 0
    assert (run / "rl_model_300_steps.zip").exists()


def test_a_killed_run_that_changed_a_moment_ago_is_left_alone(tmp_path):
    add_run(tmp_path, "ppo/A_1", **GONE)
    assert list(find_leftovers(tmp_path)) == []


@pytest.mark.parametrize("facts", [{"state": "running", "host": "elsewhere"}, {"state": None}])
def test_a_run_whose_state_is_unknown_is_left_alone(tmp_path, facts):
    run = add_run(tmp_path, "ppo/A_1", **facts)
    for step in (1, 2, 3):
        checkpoint(run, step)
    age(tmp_path)
    assert list(find_leftovers(tmp_path)) == []


def test_a_run_that_is_resumed_after_it_was_listed_is_not_deleted(tmp_path):
    run = add_run(tmp_path, "ppo/A_1", state="failed")
    (leftover,) = find_leftovers(tmp_path)
    (run / "run.json").write_text(json.dumps(facts_of(state="running")))
    with pytest.raises(OSError, match="is running again"):
        leftover.delete()
    assert run.is_dir()


def test_a_folder_that_can_not_be_deleted_is_named_and_the_others_go(tmp_path, tmp_path_factory, capsys):
    add_run(tmp_path, "ppo/A_1", state="failed")
    elsewhere = tmp_path_factory.mktemp("elsewhere") / "B_1"
    add_run(tmp_path, "ppo/B_1", state="failed").rename(elsewhere)
    (tmp_path / "ppo/B_1").symlink_to(elsewhere)  # which is not ours to delete
    assert clean(tmp_path, "--yes") == 1
    assert "sb3-ext: not deleted: ppo/B_1: " in capsys.readouterr().err
    assert (elsewhere / "run.json").exists() and not (tmp_path / "ppo/A_1").exists()


@pytest.mark.parametrize("arguments", [["fialed"], ["--keep", "-1"]])
def test_a_mistake_names_the_kinds(tmp_path, capsys, arguments):
    assert clean(tmp_path, *arguments) == 2
    assert "failed, killed, empty, checkpoints, unfinished." in capsys.readouterr().err
