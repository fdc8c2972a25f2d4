"""Several schedulers on one study, as on several machines. Trainings are computed."""

import io
import multiprocessing
import os
import signal
import time
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pytest
from computed_pool import ComputedPool
from optuna.trial import FrozenTrial, TrialState
from rich.console import Console

from sb3_ext.tune.live import LiveTable
from sb3_ext.tune.lock import study_lock
from sb3_ext.tune.scheduler import Budget, Scheduler
from sb3_ext.tune.settings import StudySettings
from sb3_ext.tune.space import SearchSpace
from sb3_ext.tune.storage import open_storage
from sb3_ext.tune.study import First, TuneStudy, open_study

SECTION = {"n_timesteps": 1000, "policy": "MlpPolicy", "learning_rate": 0.1, "n_steps": 64}
SPACE = "learning_rate: {low: 1e-5, high: 0.1, log: true}\nn_steps: [32, 64, 128]\n"
_FORK = multiprocessing.get_context("fork")


class SlowPool(ComputedPool):
    """:param hang_at: the event at which it waits to be killed"""

    def __init__(self, hang_at: int | None = None) -> None:
        super().__init__()
        self._events, self._hang_at = 0, hang_at

    def wait(self, timeout: float) -> Any:
        self._events += 1
        time.sleep(600 if self._events == self._hang_at else 0.005)
        return super().wait(timeout)


def open_it(folder: Path) -> TuneStudy:
    space = SearchSpace.read(folder / "space.yml", "ppo_ext", "CartPole-v1").as_dict()
    known = {"algo": "ppo_ext", "env": "CartPole-v1", "source": {}, "start": SECTION, "space": space}
    settings = StudySettings(**known, timesteps=1000, evaluations=4, pruner="none")

    def lock() -> Any:
        return study_lock(None, folder, "s")

    study = open_study(open_storage(None, folder), "s", settings, [First("start", SECTION)], lock)
    return TuneStudy(study, settings, lock, n_startup=4)


def search(folder: Path, trials: int, hang_at: int | None = None) -> None:
    with open_it(folder) as study:
        table = LiveTable(Console(file=io.StringIO()))
        Scheduler(study, SlowPool(hang_at), Budget(trials), table).search()


def start_search(folder: Path, trials: int, hang_at: int | None = None) -> BaseProcess:
    process = _FORK.Process(target=search, args=(folder, trials, hang_at), daemon=True)
    process.start()
    return process


def trials_of(folder: Path) -> list[FrozenTrial]:
    return open_it(folder).trials()


def wait_for(folder: Path, state: TrialState, count: int) -> None:
    end = time.monotonic() + 60
    while sum(trial.state == state for trial in trials_of(folder)) < count:
        assert time.monotonic() < end, f"there were never {count} trials in {state}"
        time.sleep(0.05)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(os, "fsync", lambda file: None)
    return with_space(tmp_path)


def with_space(folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "space.yml").write_text(SPACE, encoding="utf-8")
    return folder


def sections(folder: Path) -> list[tuple[int, Any]]:
    return [(trial.number, trial.user_attrs["section"]) for trial in trials_of(folder)]


def test_two_schedulers_share_the_trials_of_a_study(folder: Path) -> None:
    processes = [start_search(folder, 8) for _ in range(2)]
    for process in processes:
        process.join(timeout=60)
    trials = trials_of(folder)
    assert [(trial.number, trial.state) for trial in trials] == [(n, TrialState.COMPLETE) for n in range(8)]
    assert len({trial.user_attrs["owner"] for trial in trials}) == 2


def test_the_trial_of_a_killed_scheduler_is_taken_over(folder: Path) -> None:
    killed = start_search(folder, 6, hang_at=20)  # in its second trial
    wait_for(folder, TrialState.COMPLETE, 1)
    other = start_search(folder, 6)
    wait_for(folder, TrialState.COMPLETE, 3)
    os.kill(killed.pid or 0, signal.SIGKILL)
    other.join(timeout=60)
    trials = trials_of(folder)
    assert [(trial.number, trial.state) for trial in trials] == [(n, TrialState.COMPLETE) for n in range(6)]


def test_a_scheduler_without_work_waits_for_the_trials_of_others_and_takes_over_those_of_dead_ones(
    folder: Path,
) -> None:
    killed = start_search(folder, 3, hang_at=20)
    wait_for(folder, TrialState.COMPLETE, 1)
    other = start_search(folder, 3)
    wait_for(folder, TrialState.COMPLETE, 2)
    time.sleep(0.5)
    os.kill(killed.pid or 0, signal.SIGKILL)
    other.join(timeout=60)
    assert [trial.state for trial in trials_of(folder)] == [TrialState.COMPLETE] * 3


@pytest.mark.parametrize("delay", [0.1, 0.2, 0.3])
def test_a_study_killed_at_any_moment_continues_with_the_same_trials(folder: Path, delay: float) -> None:
    whole, cut = with_space(folder / "whole"), with_space(folder / "cut")
    search(whole, 6)
    process = start_search(cut, 6)
    time.sleep(delay)
    os.kill(process.pid or 0, signal.SIGKILL)
    process.join()
    search(cut, 6)
    assert sections(cut) == sections(whole)
