"""What is known of a training."""

import json
import math
import os
import re
import shlex
import subprocess
import sys
from dataclasses import fields, replace

import pytest
from conftest import PROJECT
from rl_zoo3 import ALGOS
from small_training import TINY, make_model
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.utils import FloatSchedule

from sb3_ext.callbacks import Report
from sb3_ext.callbacks.evaluation.callback import Evaluation
from sb3_ext.common.schedules import LinearToZero
from sb3_ext.common.usage_error import UsageError
from sb3_ext.runs.alive import state_of
from sb3_ext.runs.facts import RunFacts, algorithm_name, plain

EVALUATION, ROLLOUTS = "eval/mean_reward", "rollout/ep_rew_mean"


@pytest.mark.parametrize("name", ALGOS)
def test_an_algorithm_has_the_name_that_rl_zoo_gives_it(name):
    cls = ALGOS[name]
    assert algorithm_name(cls.__new__(cls)) == name


@pytest.mark.parametrize(("given", "shown"), [(LinearToZero(0.2), "lin_0.2"), (0.2, 0.2)])
def test_a_schedule_that_sb3_wraps_is_told_as_it_was_written(given, shown):
    assert plain(FloatSchedule(given)) == shown


def test_every_fact_is_explained_in_the_docs():
    explained = re.findall(r"`(\w+)`", (PROJECT / "docs" / "runs.md").read_text(encoding="utf-8"))
    assert [field.name for field in fields(RunFacts) if field.name not in explained] == []


@pytest.fixture(scope="module")
def facts(tmp_path_factory):
    """Of a training that is starting."""
    model = make_model(tmp_path_factory.mktemp("run"), **TINY)
    model._total_timesteps = 128
    return RunFacts.of(model)


def test_two_runs_have_different_ids_even_with_the_same_seed(tmp_path):
    ids = []
    for _ in range(2):
        model = make_model(tmp_path, **TINY)
        model.learn(128, callback=Report(tmp_path, plots=False))
        ids.append(RunFacts.read(tmp_path).id)
    assert ids[0] != ids[1] and all(len(name) == 8 and name.isalnum() and name.islower() for name in ids)


def test_the_commit_is_that_of_the_working_directory(facts, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    config = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", "init", "-q"], check=True)
    subprocess.run(["git", *config, "commit", "-q", "--allow-empty", "-m", "first"], check=True)
    head = subprocess.run(["git", "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout.strip()
    assert RunFacts.of(make_model(tmp_path, **TINY)).git_commit == head


@pytest.mark.parametrize("path", ["", os.defpath])
def test_without_git_or_a_repository_there_is_no_commit(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", path)
    assert RunFacts.of(make_model(tmp_path, **TINY)).git_commit is None


@pytest.mark.parametrize(
    ("rows", "score", "best"),
    [
        ([{ROLLOUTS: 3.0}, {ROLLOUTS: 2.0}], 2.0, 3.0),
        ([{ROLLOUTS: 9.0}, {EVALUATION: 4.0}, {EVALUATION: 3.0}, {ROLLOUTS: 8.0}], 3.0, 4.0),
        ([{EVALUATION: 1.0, ROLLOUTS: 2.0}], 1.0, 1.0),
        ([{ROLLOUTS: 1.0}, {ROLLOUTS: math.nan}, {"train/loss": 7.0}], 1.0, 1.0),
        ([{"train/loss": 7.0}], None, None),
    ],
)
def test_the_score_is_the_last_evaluation_or_else_the_last_rollouts(facts, rows, score, best):
    facts = replace(facts)
    for row in rows:
        facts.see_row(row)
    assert (facts.score, facts.best_score) == (score, best)


@pytest.mark.parametrize(
    ("metric", "scores", "solved"),
    [
        (EVALUATION, [5.0, 1.0], True),
        (EVALUATION, [4.0], False),
        (ROLLOUTS, [5.0, 1.0], False),
        (ROLLOUTS, [5.0], True),
    ],
)
def test_solved_by_its_best_evaluation_or_its_last_rollouts(facts, metric, scores, solved):
    facts = replace(facts, threshold=5.0)
    for score in scores:
        facts.see_row({metric: score})
    assert facts.solved is solved


def test_without_a_threshold_it_is_not_known_whether_it_is_solved(facts):
    facts = replace(facts, threshold=None, env_threshold=None)
    facts.see_row({EVALUATION: 1e9})
    assert facts.solved is None


def test_a_resumed_training_is_the_same_run(facts):
    later = replace(facts, id="other", started="later", steps_at_start=64)
    later.resume(replace(facts, id="first", started="earlier", best_score=7.0, resumes=[{"at": "then", "step": 8}]))
    assert (later.id, later.started, later.best_score) == ("first", "earlier", 7.0)
    assert later.resumes == [{"at": "then", "step": 8}, {"at": "later", "step": 64}]


@pytest.mark.parametrize("content", [None, "{", "[]", "{}"])
def test_a_folder_without_readable_facts_is_an_error_that_names_it(tmp_path, content):
    if content is not None:
        (tmp_path / "run.json").write_text(content)
    with pytest.raises(UsageError, match=str(tmp_path)):
        RunFacts.read(tmp_path)


def test_facts_read_back_are_those_that_were_saved_and_unknown_ones_are_left_out(facts, tmp_path):
    facts.save(tmp_path)
    path = tmp_path / "run.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "from_the_future": 1}))
    assert RunFacts.read(tmp_path) == facts


class _Killed(BaseCallback):
    """What a killed process would leave behind."""

    def __init__(self, folder):
        super().__init__()
        self.folder, self.facts = folder, None

    def _on_step(self):
        self.facts = RunFacts.read(self.folder)
        return True


def test_a_run_that_is_killed_has_the_score_and_the_steps_of_its_last_evaluation(tmp_path):
    killed = _Killed(tmp_path)
    evaluation = Evaluation(every=128, episodes=1, verbose=0)
    make_model(tmp_path, **TINY).learn(256, callback=[Report(tmp_path, plots=False), evaluation, killed])
    assert killed.facts.state == "running" and killed.facts.ended is None
    assert killed.facts.score == evaluation.last_mean_reward and killed.facts.steps == 256


def test_the_process_of_a_run_is_running_or_was_killed(facts):
    running = vars(facts)
    assert state_of(running) == "running"
    assert state_of({**running, "process_started": facts.process_started - 60}) == "killed"
    assert state_of({**running, "pid": 2**22 + 1}) == "killed"
    assert state_of({**running, "host": "elsewhere"}) == "unknown"
    assert state_of({**running, "state": "finished", "pid": 2**22 + 1}) == "finished"


def test_the_command_can_be_typed_again(tmp_path, monkeypatch):
    words = ["python", "-m", "sb3_ext", "train", "-params", "policy_kwargs:dict(net_arch=[64, 64])", "a:'b c'"]
    monkeypatch.setattr(sys, "orig_argv", words)
    assert shlex.split(RunFacts.of(make_model(tmp_path, **TINY)).command) == words
