"""``sb3-ext runs``."""

import json
import os
import pty
import subprocess
import sys

import pytest
from conftest import PROJECT
from registered_runs import add_run
from report_folders import zoo_run

from sb3_ext.cli import main


@pytest.fixture
def logs(tmp_path):
    add_run(tmp_path, "ppo_ext/CartPole-v1_1", id="aaaa1111", score=12.5, steps=1000, seconds=3700.0, seed=3)
    add_run(tmp_path, "ppo_ext/Pong-v5_1", id="bbbb2222", score=20.0, threshold=18.0, solved=True, stop_reason="solved")
    add_run(tmp_path, "reinforce/CartPole-v1_1", id="cccc3333", state="running", pid=2**22 + 1, parent="aaaa1111")
    return tmp_path


def runs(folder, *arguments):
    return main(["runs", "-f", str(folder), *arguments])


def first_column(printed):
    return [line.split("  ")[0] for line in printed.splitlines()[1:]]


def test_a_table_of_the_runs_newest_first(logs, capsys):
    assert runs(logs) == 0
    header, *lines = capsys.readouterr().out.splitlines()
    assert header.split() == "run state score id steps time started threshold solved seed parent ended by".split()
    assert [line.split()[:2] for line in lines] == [
        ["reinforce/CartPole-v1_1", "killed"],
        ["ppo_ext/Pong-v5_1", "finished"],
        ["ppo_ext/CartPole-v1_1", "finished"],
    ]
    assert "12.5  aaaa1111  1,000  1:01:40" in lines[2]


@pytest.mark.parametrize(
    ("arguments", "names"),
    {
        "--env cartpole*": ["reinforce/CartPole-v1_1", "ppo_ext/CartPole-v1_1"],
        "--env Pong-v5": ["ppo_ext/Pong-v5_1"],
        "--algo ppo_ext": ["ppo_ext/Pong-v5_1", "ppo_ext/CartPole-v1_1"],
        "--state killed failed": ["reinforce/CartPole-v1_1"],
        "--sort score": ["ppo_ext/Pong-v5_1", "ppo_ext/CartPole-v1_1", "reinforce/CartPole-v1_1"],
        "--sort algo": ["ppo_ext/Pong-v5_1", "ppo_ext/CartPole-v1_1", "reinforce/CartPole-v1_1"],
        "-n 1": ["reinforce/CartPole-v1_1", "1 of 3 runs; -n 0 shows all"],
    }.items(),
)
def test_runs_are_filtered_and_sorted(logs, capsys, arguments, names):
    assert runs(logs, *arguments.split()) == 0
    assert first_column(capsys.readouterr().out) == names


def test_a_program_reads_json(logs, capsys):
    assert runs(logs, "--json", "--state", "finished") == 0
    found = json.loads(capsys.readouterr().out)
    assert [entry["id"] for entry in found] == ["bbbb2222", "aaaa1111"]
    assert found[0]["solved"] is True and found[0]["path"] == str(logs / "ppo_ext/Pong-v5_1")


def test_runs_without_run_json_are_listed_and_a_rebuild_reads_their_scores(logs, capsys):
    zoo_run(logs / "ppo" / "CartPole-v1_7", scores=[480.0, 490.0], algo="ppo")
    runs(logs, "--algo", "ppo")
    assert "1 without run.json: " in capsys.readouterr().out
    runs(logs, "--algo", "ppo", "--rebuild")
    assert capsys.readouterr().out.splitlines()[1].split()[:3] == ["ppo/CartPole-v1_7", "unknown", "490"]


def test_a_broken_line_of_the_registry_is_one_line_on_the_terminal(logs):
    with (logs / "runs.jsonl").open("a") as file:
        file.write("broken\n")
    program = [sys.executable, "-m", "sb3_ext", "runs", "-f", str(logs)]
    result = subprocess.run(program, capture_output=True, text=True, cwd=PROJECT)
    rebuild = f"To rebuild the file: sb3-ext runs -f {logs} --rebuild"
    assert result.stderr == f"sb3-ext: Line 4 of {logs}/runs.jsonl can't be read. {rebuild}\n"
    assert len(result.stdout.splitlines()) == 4 and result.returncode == 0


def test_runs_that_do_not_match_are_exit_code_1(logs, tmp_path_factory, capsys):
    assert runs(logs, "--env", "Acrobot-v1") == 1
    assert runs(tmp_path_factory.mktemp("empty")) == 1
    assert capsys.readouterr().out.startswith(f"No run in {logs} matches: it has 3.\nNo runs in ")


def test_a_folder_that_does_not_exist_is_an_error(tmp_path, capsys):
    assert runs(tmp_path / "nowhere") == 2
    assert capsys.readouterr().err == (
        f"sb3-ext: There is no folder {tmp_path}/nowhere. For another log folder: sb3-ext runs -f FOLDER\n"
    )


def test_names_that_could_change_a_terminal_are_shown_without_control_characters(tmp_path, capsys):
    add_run(tmp_path, "ppo/A_1", id="\x1b[2Jbad", stop_reason="two\nlines")
    runs(tmp_path)
    printed = capsys.readouterr().out
    assert "\x1b" not in printed and "two lines" in printed and len(printed.splitlines()) == 2


def test_the_table_fits_the_terminal(logs):
    ours, theirs = pty.openpty()
    program = [sys.executable, "-m", "sb3_ext", "runs", "-f", str(logs)]
    subprocess.run(program, stdout=theirs, check=True, cwd=PROJECT, env={**os.environ, "COLUMNS": "60"})
    lines = os.read(ours, 10_000).decode().splitlines()
    assert len(lines) == 4 and max(map(len, lines)) <= 60 and lines[0].split()[:3] == ["run", "state", "score"]


def test_the_command_imports_nothing_that_is_slow(logs):
    slow = ["torch", "numpy", "pandas", "pydantic", "gymnasium", "rich", "filelock", "matplotlib"]
    code = (
        "import sys; from sb3_ext.cli import main; main(sys.argv[1:]);"
        f"print([name for name in {slow} if name in sys.modules])"
    )
    program = [sys.executable, "-c", code, "runs", "-f", str(logs)]
    assert subprocess.run(program, capture_output=True, text=True, cwd=PROJECT).stdout.splitlines()[-1] == "[]"
