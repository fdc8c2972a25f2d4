"""Which scheduler runs a trial, whether it still lives, and how another takes its trials over."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Collection
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from optuna import Study, Trial
from optuna.trial import FrozenTrial, TrialState

from sb3_ext.runs.alive import process_start, state_of

__all__ = ["Heartbeat", "Owner", "give_back", "give_back_dead", "is_dead"]

#: Attribute of a trial, and start of the name of the study's attribute with the owner's heartbeat
_OWNER = "owner"
#: Seconds between heartbeats
_INTERVAL = 20.0
#: Heartbeats of ours during which another owner was silent, before it counts as dead: 100 s
_MISSED = 5


@dataclass(frozen=True)
class Owner:
    """
    A scheduler's process.

    :param machine: changes when the machine boots; containers of one machine that don't see each other's processes
        differ in it even if they have the same host name
    """

    host: str
    pid: int
    process_started: float
    machine: str

    @classmethod
    def of_this_process(cls) -> Owner:
        pid = os.getpid()
        return cls(socket.gethostname(), pid, process_start(pid) or 0.0, _this_machine())

    @property
    def name(self) -> str:
        return f"{self.host}-{self.pid}-{self.process_started:.0f}"

    def claim(self, trial: Trial) -> None:
        """Make the trial ours. Call it inside the lock in which :meth:`optuna.Study.ask` made it."""
        trial.set_user_attr(_OWNER, self.name)

    def owns(self, study: Study, number: int) -> bool:
        """
        Whether the trial is still ours. While the network is cut, another machine may take it over. Ask this inside
        the lock, before the trial is told.
        """
        trial = _trial(study, number)
        return trial.state == TrialState.RUNNING and trial.user_attrs.get(_OWNER) == self.name


class Heartbeat:
    """
    Tells other machines that this process lives, and watches them. A thread: Optuna's storages have locks for that.

    Silence is counted in heartbeats of ours that reached the storage, not by the clock: clocks of machines differ, and
    after a storage was away, everyone seems to have been silent.
    """

    def __init__(self, study: Study, owner: Owner, interval: float = _INTERVAL) -> None:
        self._study = study
        self._owner = owner
        self._interval = interval
        self._is_stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="heartbeat", daemon=True)
        self._number = 0
        #: Latest heartbeat of each owner, and for how many of ours it has been the latest
        self._latest: dict[str, tuple[Any, int]] = {}

    def start(self) -> None:
        self._beat()
        self._thread.start()

    def stop(self) -> None:
        self._is_stopped.set()
        # It may be waiting for a server
        self._thread.join(timeout=1.0)

    def __enter__(self) -> Heartbeat:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def silent(self) -> frozenset[str]:
        """Names of owners that have not been heard of for so long that they count as dead."""
        return frozenset(name for name, (_, missed) in dict(self._latest).items() if missed >= _MISSED)

    def _run(self) -> None:
        while not self._is_stopped.wait(self._interval):
            # The storage may be away for a while: whatever it raises, the next heartbeat tries again
            with suppress(Exception):
                self._beat()

    def _beat(self) -> None:
        self._number += 1
        self._study.set_user_attr(f"{_OWNER} {self._owner.name}", {**asdict(self._owner), "heartbeat": self._number})
        for key, facts in self._study.user_attrs.items():
            if key.startswith(f"{_OWNER} "):
                name, number = key.removeprefix(f"{_OWNER} "), facts["heartbeat"]
                before, missed = self._latest.get(name, (None, 0))
                self._latest[name] = (number, missed + 1 if number == before else 0)


def give_back_dead(study: Study, silent: Collection[str] = ()) -> list[int]:
    """
    Make trials of dead schedulers wait for a new owner. Call it inside the study's lock.

    A process of this machine is dead when it does not exist. A trial without an owner is given back, too: it gets one
    inside the lock in which it was made, so that process is dead if the lock is ours.

    :param silent: owners on other machines that count as dead, :attr:`Heartbeat.silent`
    :return: numbers of the trials that wait now
    """
    running = study.get_trials(deepcopy=False, states=(TrialState.RUNNING,))
    if not running:
        return []
    owners = {trial.user_attrs.get(_OWNER) for trial in running}
    gone = {owner for owner in owners if owner is None or is_dead(study, owner, silent)}
    dead = [trial for trial in running if trial.user_attrs.get(_OWNER) in gone]
    for trial in dead:
        _give_back(study, trial)
    return [trial.number for trial in dead]


def give_back(study: Study, number: int) -> None:
    """Make a running trial wait for a new owner, with its number and parameters. Call it inside the study's lock."""
    _give_back(study, _trial(study, number))


def _give_back(study: Study, trial: FrozenTrial) -> None:
    storage = study._storage
    # In this order: if we are killed in between, it is a running trial without an owner
    storage.set_trial_user_attr(trial._trial_id, _OWNER, None)
    storage.set_trial_state_values(trial._trial_id, TrialState.WAITING)


def _trial(study: Study, number: int) -> FrozenTrial:
    storage = study._storage
    return storage.get_trial(storage.get_trial_id_from_study_id_trial_number(study._study_id, number))


def is_dead(study: Study, owner: str, silent: Collection[str] = ()) -> bool:
    """:param owner: :attr:`Owner.name`"""
    about = study.user_attrs.get(f"{_OWNER} {owner}")
    if about is None:
        return True
    if about["machine"] == _this_machine():
        return state_of({**about, "state": "running"}) == "killed"
    return owner in silent


def _this_machine() -> str:
    """Two processes with the same value see each other's process numbers."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return socket.gethostname()
