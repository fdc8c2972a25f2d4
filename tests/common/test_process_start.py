"""One process start at a time."""

import os
import threading

import pytest

from sb3_ext.common import process_start
from sb3_ext.common.process_start import starting_process


def test_a_second_start_waits_for_the_first():
    seen, may_end = [], threading.Event()

    def first():
        with starting_process():
            seen.append("first begins")
            entered.set()
            may_end.wait(60)
            seen.append("first ends")

    def second():
        entered.wait(60)
        with starting_process():
            seen.append("second begins")

    entered = threading.Event()
    threads = [threading.Thread(target=target) for target in (first, second)]
    for thread in threads:
        thread.start()
    entered.wait(60)
    threads[1].join(0.05)
    may_end.set()
    for thread in threads:
        thread.join(60)
    assert seen == ["first begins", "first ends", "second begins"]


def test_a_start_that_does_not_end_is_reported(monkeypatch):
    monkeypatch.setattr(process_start, "_TIMEOUT", 0.01)
    errors = []

    def start():
        try:
            with starting_process():
                pass
        except TimeoutError as error:
            errors.append(str(error))

    with starting_process(), starting_process():  # one thread may start within a start
        thread = threading.Thread(target=start)
        thread.start()
        thread.join(60)
    assert errors == ["another process has been starting for 0.01 s"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_fork_within_a_start_can_start_processes_itself():
    def start(done):
        with starting_process():
            done.set()

    with starting_process():
        pid = os.fork()
        if pid == 0:
            done = threading.Event()
            threading.Thread(target=start, args=(done,), daemon=True).start()
            os._exit(0 if done.wait(20) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    done = threading.Event()
    thread = threading.Thread(target=start, args=(done,))
    thread.start()
    thread.join(60)
    assert done.is_set(), "the fork left the lock held"
