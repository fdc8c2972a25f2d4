"""Schedulers without training: processes that claim the trials of one study under its lock."""

import multiprocessing
import os
import signal
import time
from collections import Counter
from multiprocessing.process import BaseProcess
from pathlib import Path

import optuna
from optuna.trial import TrialState

from sb3_ext.tune.lock import study_lock
from sb3_ext.tune.owners import Heartbeat, Owner, give_back_dead
from sb3_ext.tune.storage import open_storage

__all__ = ["check_that_each_ran_once", "claim_trials", "open_study", "start_claiming"]

_FORK = multiprocessing.get_context("fork")


def open_study(url: str | None, folder: Path) -> optuna.Study:
    storage = open_storage(url, folder)
    with study_lock(url, folder, "small"):
        return optuna.create_study(storage=storage, study_name="small", load_if_exists=True)


def claim_trials(url: str | None, folder: Path, total: int, dies_at: int | None = None) -> None:
    """
    :param total: number of trials of the study
    :param dies_at: end with SIGKILL during this trial of ours, counted from 1
    """
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study, owner, ours = open_study(url, folder), Owner.of_this_process(), 0
    with Heartbeat(study, owner):
        while True:
            with study_lock(url, folder, "small"):
                give_back_dead(study)
                states = Counter(trial.state for trial in study.get_trials(deepcopy=False))
                if sum(states.values()) < total or states[TrialState.WAITING]:
                    trial = study.ask()
                    owner.claim(trial)
                    trial.suggest_float("x", 0, 1)
                elif states[TrialState.RUNNING]:
                    trial = None
                else:
                    return
            if trial is None:
                time.sleep(0.1)
                continue
            ours += 1
            if ours == dies_at:
                os.kill(os.getpid(), signal.SIGKILL)
            time.sleep(0.01)
            with study_lock(url, folder, "small"):
                assert owner.owns(study, trial.number)
                with (folder / "told").open("a") as told:
                    told.write(f"{trial.number} {os.getpid()}\n")
                study.tell(trial, trial.params["x"])


def start_claiming(url: str | None, folder: Path, total: int, dies_at: int | None = None) -> BaseProcess:
    process = _FORK.Process(target=claim_trials, args=(url, folder, total, dies_at), daemon=True)
    process.start()
    return process


def check_that_each_ran_once(url: str | None, folder: Path, total: int) -> None:
    trials = open_study(url, folder).trials
    assert [trial.number for trial in trials] == list(range(total))
    assert {trial.state for trial in trials} == {TrialState.COMPLETE}
    told = [int(line.split()[0]) for line in (folder / "told").read_text().splitlines()]
    assert sorted(told) == list(range(total))
