"""A process that does jobs while training goes on: newest first to stay, nothing left behind, reasons for failures."""

import math
import os
import threading
import time

import pytest

from sb3_ext.runs.background import BackgroundProcess


@pytest.fixture(scope="module")
def shared():
    process = BackgroundProcess(max_waiting=2)
    yield process
    process.close()


def finish(process):
    assert process.wait(30)
    return process.outcomes()


def test_a_job_is_done_in_another_process_of_low_priority(shared):
    shared.submit("pid", os.getpid)
    shared.submit("priority", os.getpriority, os.PRIO_PROCESS, 0)
    pid, priority = finish(shared)
    assert pid.result != os.getpid()
    assert priority.result == 19
    assert shared.outcomes() == []


def test_a_failure_comes_back_with_its_reason_and_the_process_goes_on(shared):
    shared.submit("root", math.sqrt, -1)
    (failure,) = finish(shared)
    assert failure.key == "root" and failure.result is None
    assert failure.error.startswith("ValueError: ")
    shared.submit("root", math.sqrt, 4)
    assert finish(shared)[0].result == 2


def test_what_a_job_prints_does_no_harm(shared):
    shared.submit("print", print, "hello" * 10_000)
    shared.submit("system", os.system, "echo hello")
    assert [outcome.error for outcome in finish(shared)] == [None, None]


def test_the_newest_jobs_win(shared):
    shared.submit("first", time.sleep, 0.5)
    while not shared._is_working:
        time.sleep(0.01)
    for name in ("a", "b", "a", "c"):
        shared.submit(name, max, 0, ord(name))
    dropped = shared.n_dropped
    assert [outcome.key for outcome in finish(shared)] == ["first", "a", "c"]
    assert dropped == 1  # b; the first a was replaced


def test_a_process_that_dies_is_told_of_and_replaced(shared):
    shared.submit("dies", os._exit, 3)
    (outcome,) = finish(shared)
    assert "ended with code 3" in outcome.error
    shared.submit("pid", os.getpid)
    assert finish(shared)[0].error is None


def test_closing_ends_it_at_once():
    threads = threading.enumerate()
    process = BackgroundProcess()
    process.submit("pid", os.getpid)
    (outcome,) = finish(process)
    process.submit("sleeps", time.sleep, 60)
    assert not process.wait(0.2)
    start = time.monotonic()
    process.close()
    assert time.monotonic() - start < 5
    assert not process.is_busy
    with pytest.raises(ProcessLookupError):
        os.kill(outcome.result, 0)
    assert not [thread for thread in threading.enumerate() if thread not in threads and thread.daemon]
