"""Processes start one at a time, and nobody waits forever for another start."""

import os
import threading

import pytest

from sb3_ext.common import process_start
from sb3_ext.common.process_start import starting_process


@pytest.fixture(autouse=True)
def short_timeout(monkeypatch):
    monkeypatch.setattr(process_start, "_TIMEOUT", 0.2)


def can_start():
    """Whether another thread can start a process."""
    results = []

    def start():
        try:
            with starting_process():
                results.append(True)
        except TimeoutError:
            results.append(False)

    thread = threading.Thread(target=start)
    thread.start()
    thread.join()
    return results[0]


def fork():
    """What a fork says of itself."""
    pid = os.fork()
    if pid == 0:
        os._exit(0 if can_start() else 1)
    return os.waitpid(pid, 0)[1] == 0


def test_one_start_waits_for_another_and_not_forever():
    with starting_process():
        assert not can_start()
    assert can_start()


def test_a_fork_can_start_processes_and_its_parent_too():
    assert fork()
    assert can_start()


def test_a_fork_next_to_a_start_that_never_ends_can_start_processes_and_leaves_the_lock_alone():
    inside, end = threading.Event(), threading.Event()

    def start_forever():
        with starting_process():
            inside.set()
            end.wait()

    thread = threading.Thread(target=start_forever)
    thread.start()
    inside.wait()
    assert fork()
    assert not can_start()
    end.set()
    thread.join()
    assert can_start()
