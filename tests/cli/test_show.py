"""``sb3-ext show``."""

import json

import numpy as np
import pytest
from registered_runs import add_run
from report_folders import zoo_run

from sb3_ext.cli import main
from sb3_ext.runs.describe import shown_size
from sb3_ext.runs.record import read_record
from sb3_ext.runs.report.advice import suggestions


def show(folder, *arguments):
    return main(["show", "-f", str(folder), *arguments])


FACTS = {
    **{"id": "abcd1234", "n_envs": 4, "seed": 7, "steps": 2048, "total_timesteps": 2000, "seconds": 65.0},
    **{"score": 480.5, "score_from": "evaluation", "best_score": 490.0, "env_threshold": 475.0, "solved": True},
    **{"stop_reason": "no progress", "stop_advice": "more patience", "git_commit": "f00"},
    **{"hyperparams": {"gamma": 0.99}, "resumes": [{"at": "noon", "step": 1024}]},
}


def test_all_facts_and_files_are_shown_with_what_to_do_next(tmp_path, capsys):
    run = add_run(tmp_path, "ppo_ext/CartPole-v1_1", **FACTS)
    (run / "best_model.zip").write_bytes(b"x" * 1500)
    assert show(tmp_path, "@last") == 0
    printed = capsys.readouterr().out
    for line in (
        f"{run} (abcd1234)",
        "  state: finished (no progress)",
        "  advice: more patience",
        "  trained: ppo_ext on CartPole-v1, 4 environments",
        "  score: 480.5 (evaluation), best 490; solved: the threshold is 475",
        "  steps: 2,048 of 2,000 in 0:01:05",
        "  resumed: noon at step 1024",
        "  git_commit: f00",
        "    gamma: 0.99",
        "     1.5 kB  best_model.zip: the best model by evaluation",
        f"  sb3-ext resume {run} -n 4096   # train it for as long again",
        f"  sb3-ext enjoy {run}",
        f"  sb3-ext report {run}",
    ):
        assert line in printed.splitlines()


@pytest.mark.parametrize(
    ("state", "pid", "command"),
    [
        ("interrupted", 1, "sb3-ext resume "),
        ("failed", 1, "sb3-ext resume "),
        ("running", 2**22 + 1, "sb3-ext resume "),
        ("running", None, "tail -f "),
    ],
)
def test_a_run_that_did_not_end_well_can_be_resumed_and_a_running_one_watched(tmp_path, capsys, state, pid, command):
    run = add_run(tmp_path, "ppo/A_1", state=state, **({} if pid is None else {"pid": pid}))
    (run / "resume.zip").touch()
    show(tmp_path, "A_1")
    assert f"What to do next\n  {command}{run}" in capsys.readouterr().out


def test_a_run_with_nothing_to_resume_from_is_started_again(tmp_path, capsys):
    run = zoo_run(tmp_path / "ppo" / "CartPole-v1_1", algo="ppo")
    add_run(tmp_path, "ppo/CartPole-v1_1", state="running", pid=2**22 + 1)
    show(tmp_path, str(run))
    printed = capsys.readouterr().out
    assert "What to do next\n  python -m rl_zoo3.train --algo ppo --env CartPole-v1 " in printed
    assert "sb3-ext resume" not in printed


def test_without_rl_zoo_the_command_that_started_a_run_starts_it_again(tmp_path, capsys):
    add_run(tmp_path, "ppo/A_1", state="failed", command="python train.py")
    show(tmp_path, "A_1")
    assert "What to do next\n  python train.py   # nothing was saved to resume from" in capsys.readouterr().out


def test_the_report_suggests_as_many_steps_as_show(tmp_path, capsys):
    run = zoo_run(tmp_path / "ppo" / "CartPole-v1_1", np.linspace(20, 300, 50), algo="ppo")
    add_run(tmp_path, "ppo/CartPole-v1_1", steps=20224, total_timesteps=20000)
    (run / "resume.zip").touch()
    show(tmp_path, str(run))
    command = f"sb3-ext resume {run} -n 40448"
    assert command in capsys.readouterr().out
    assert [said for said in suggestions(read_record(run)) if f"`{command}`" in said]


def test_a_program_reads_json(tmp_path, capsys):
    run = add_run(tmp_path, "ppo/A_1", state="running", pid=2**22 + 1, hyperparams={"gamma": 0.9})
    show(tmp_path, "A_1", "--json")
    read = json.loads(capsys.readouterr().out)
    assert (read["state"], read["path"], read["hyperparams"]) == ("killed", str(run), {"gamma": 0.9})
    assert read["files"] == {"run.json": (run / "run.json").stat().st_size}


def test_a_run_without_run_json_is_shown_as_far_as_its_logs_tell(tmp_path, capsys):
    zoo_run(tmp_path / "ppo" / "CartPole-v1_1", scores=[480.0, 490.0], algo="ppo")
    assert show(tmp_path, "ppo/CartPole-v1_1") == 0
    printed = capsys.readouterr().out
    assert "trained: ppo on CartPole-v1\n  score: 490, best 490; solved: the threshold is 475" in printed


def test_facts_of_the_wrong_type_are_no_traceback(tmp_path, capsys):
    run = add_run(tmp_path, "ppo/A_1")
    (run / "run.json").write_text('{"id": 3, "steps": "many", "score": [], "resumes": [1], "seconds": "\\u001b[2J"}')
    assert show(tmp_path, str(run)) == 0
    assert "\x1b" not in capsys.readouterr().out


def test_a_run_that_does_not_exist_is_an_error(tmp_path, capsys):
    add_run(tmp_path, "ppo/A_1")
    assert show(tmp_path, "ppo/B_1") == 2
    assert "did you mean 'ppo/A_1'?" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("size", "shown"), [(0, "0 B"), (999, "999 B"), (1500, "1.5 kB"), (2e6, "2 MB"), (3e12, "3e+03 GB")]
)
def test_sizes_are_shown_with_three_digits(size, shown):
    assert shown_size(size) == shown
