import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import optuna
import pytest
from claims import check_that_each_ran_once, open_study, start_claiming
from optuna.trial import TrialState

from sb3_ext.tune.owners import Heartbeat, Owner, give_back, give_back_dead

URLS = [None, "sqlite:///{}/study.db"]
Open = Callable[[], optuna.Study]


@pytest.fixture
def open_it(request: pytest.FixtureRequest, tmp_path: Path) -> Open:
    """Opens the same study each time, as other processes do."""
    url = getattr(request, "param", None)
    return lambda: open_study(url and url.format(tmp_path), tmp_path)


both_kinds = pytest.mark.parametrize("open_it", URLS, ids=["journal", "sqlite"], indirect=True)


def ended_process() -> Owner:
    with subprocess.Popen([sys.executable, "-S", "-c", "input()"], stdin=subprocess.PIPE) as process:
        started = Owner.of_this_process().process_started
        process.communicate(b"\n")
    return replace(Owner.of_this_process(), pid=process.pid, process_started=started)


def run_trial(study: optuna.Study, owner: Owner) -> optuna.Trial:
    trial = study.ask({"x": optuna.distributions.FloatDistribution(0, 1)})
    owner.claim(trial)
    return trial


def beat(study: optuna.Study, owner: Owner, times: int = 1) -> Heartbeat:
    heartbeat = Heartbeat(study, owner)
    for _ in range(times):
        heartbeat._beat()
    return heartbeat


@both_kinds
def test_a_dead_process_gives_its_trial_back_at_once(open_it: Open) -> None:
    study, dead = open_it(), ended_process()
    beat(study, dead)
    trial = run_trial(study, dead)
    other = open_it()
    assert give_back_dead(other) == [0]
    again = other.ask()
    assert (again.number, again.suggest_float("x", 0, 1)) == (0, trial.params["x"])


def test_a_living_process_keeps_its_trial(open_it: Open) -> None:
    study, owner = open_it(), Owner.of_this_process()
    beat(study, owner)
    run_trial(study, owner)
    assert give_back_dead(open_it()) == []
    assert owner.owns(open_it(), 0)


def test_a_process_with_the_number_of_a_dead_one_is_another(open_it: Open) -> None:
    study = open_it()
    before = replace(Owner.of_this_process(), process_started=1.0)
    beat(study, before)
    run_trial(study, before)
    assert give_back_dead(study) == [0]


def test_a_trial_without_an_owner_is_given_back_at_once(open_it: Open) -> None:
    study = open_it()
    study.ask()
    assert give_back_dead(open_it()) == [0]


def test_a_process_of_another_machine_counts_as_dead_after_five_silent_heartbeats(open_it: Open) -> None:
    study, far = open_it(), replace(ended_process(), machine="another", host="far")
    beat(study, far)
    run_trial(study, far)
    ours = beat(open_it(), Owner.of_this_process(), times=5)
    assert give_back_dead(study, ours.silent) == []
    ours._beat()
    assert ours.silent == {far.name}
    assert give_back_dead(study, ours.silent) == [0]


def test_a_process_of_another_machine_that_beats_keeps_its_trial(open_it: Open) -> None:
    study, far = open_it(), replace(ended_process(), machine="another", host="far")
    theirs, ours = Heartbeat(study, far), Heartbeat(open_it(), Owner.of_this_process())
    run_trial(study, far)
    for _ in range(4):
        theirs._beat()
        for _ in range(3):
            ours._beat()
    assert ours.silent == frozenset()


@both_kinds
def test_a_trial_that_was_given_back_has_no_owner(open_it: Open) -> None:
    study, owner = open_it(), Owner.of_this_process()
    beat(study, owner)
    run_trial(study, owner)
    give_back(study, 0)
    assert not owner.owns(study, 0)
    # Its next owner was killed before it could claim it
    open_it().ask()
    assert give_back_dead(study) == [0]


def test_a_trial_that_was_taken_over_is_not_ours(open_it: Open) -> None:
    study, owner = open_it(), Owner.of_this_process()
    run_trial(study, owner)
    give_back(open_it(), 0)
    run_trial(open_it(), replace(owner, host="far"))
    assert not owner.owns(study, 0)


def test_finished_trials_are_never_given_back(open_it: Open) -> None:
    study = open_it()
    study.tell(study.ask(), 1.0)
    study.tell(study.ask(), state=TrialState.PRUNED)
    assert give_back_dead(study) == []


@both_kinds
def test_the_heartbeat_goes_on_while_the_study_is_used(open_it: Open) -> None:
    study, owner = open_it(), Owner.of_this_process()
    reader, name = open_it(), f"owner {owner.name}"
    with Heartbeat(study, owner, interval=0.001):
        for _ in range(5):
            study.tell(run_trial(study, owner), 1.0)
        first = reader.user_attrs[name]["heartbeat"]
        while reader.user_attrs[name]["heartbeat"] == first:
            time.sleep(0.01)
    assert [trial.state for trial in reader.trials] == [TrialState.COMPLETE] * 5


def test_the_heartbeat_survives_a_storage_that_is_away(tmp_path: Path) -> None:
    study, owner = open_study(None, tmp_path), Owner.of_this_process()
    journal = tmp_path / "study.log"
    with Heartbeat(study, owner, interval=0.001):
        journal.rename(tmp_path / "away")
        journal.mkdir()
        time.sleep(0.1)
        journal.rmdir()
        (tmp_path / "away").rename(journal)
        reader = open_study(None, tmp_path)
        before = reader.user_attrs[f"owner {owner.name}"]["heartbeat"]
        while reader.user_attrs[f"owner {owner.name}"]["heartbeat"] == before:
            time.sleep(0.01)
    assert not any(thread.name == "heartbeat" for thread in threading.enumerate())


@pytest.mark.parametrize("url", URLS, ids=["journal", "sqlite"])
def test_four_schedulers_one_of_them_killed_run_each_trial_once(tmp_path: Path, url: str | None) -> None:
    url = url and url.format(tmp_path)
    processes = [start_claiming(url, tmp_path, 8, dies_at=2 if number == 0 else None) for number in range(4)]
    for process in processes:
        process.join(timeout=60)
    assert [process.exitcode for process in processes] == [-signal.SIGKILL, 0, 0, 0]
    check_that_each_ran_once(url, tmp_path, 8)


def test_a_scheduler_killed_at_any_moment_loses_no_trial(tmp_path: Path) -> None:
    """Its trial may be asked for, half-written, running or told."""
    for delay in (0.05, 0.1, 0.15, 0.2, 0.25, 0.3):
        process = start_claiming(None, tmp_path, 1000)
        time.sleep(delay)
        os.kill(process.pid or 0, signal.SIGKILL)
        process.join()
    total = max(5, len(open_study(None, tmp_path).trials))
    process = start_claiming(None, tmp_path, total)
    process.join(timeout=60)
    states = [trial.state for trial in open_study(None, tmp_path).trials]
    assert states == [TrialState.COMPLETE] * total
