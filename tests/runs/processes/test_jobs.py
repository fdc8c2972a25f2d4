"""A process that does jobs while training goes on: newest first to stay, nothing left behind, reasons for failures."""

import gc
import math
import os
import signal
import subprocess
import threading
import time
from types import SimpleNamespace

import gymnasium as gym
import pytest

from sb3_ext.runs.processes.jobs import JobQueue

#: Seconds after which something has failed; a process of low priority on a busy machine takes long
PATIENCE = 300


@pytest.fixture(scope="module")
def shared():
    process = JobQueue(max_waiting=2)
    yield process
    process.close()


def finish(process):
    assert process.wait(PATIENCE)
    return process.outcomes()


def ends(pid):
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.01)
    return False


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
    assert failure.details.startswith("Traceback")
    shared.submit("root", math.sqrt, 4)
    assert finish(shared)[0].result == 2


def test_what_a_job_prints_does_no_harm(shared):
    shared.submit("print", print, "hello" * 10_000)
    shared.submit("system", os.system, "echo hello")
    assert [outcome.error for outcome in finish(shared)] == [None, None]


def test_the_newest_jobs_win(shared, tmp_path):
    fifo = tmp_path / "go"
    os.mkfifo(fifo)
    shared.submit("first", os.open, fifo, os.O_RDONLY)  # waits for a writer
    while not shared._is_working:
        time.sleep(0.01)
    n_dropped = shared.n_dropped
    for name in ("a", "b", "a", "c"):
        shared.submit(name, max, 0, ord(name))
    os.close(os.open(fifo, os.O_WRONLY))
    assert [outcome.key for outcome in finish(shared)] == ["first", "a", "c"]
    assert shared.n_dropped - n_dropped == 1  # b; the first a was replaced


@pytest.mark.parametrize(
    ("death", "said"),
    [
        ((exec, "import os; os.write(2, b'no more memory\\n'); os._exit(3)"), "ended with code 3: no more memory"),
        ((os.abort,), "was ended by SIGABRT"),
    ],
)
def test_a_process_that_dies_is_told_of_and_replaced(shared, death, said):
    shared.submit("dies", *death)
    (outcome,) = finish(shared)
    assert (outcome.key, outcome.error) == ("dies", f"the process {said}")
    shared.submit("pid", os.getpid)
    assert finish(shared)[0].error is None


def test_a_job_without_a_name_is_heard_of_when_it_fails(shared):
    shared.submit("", math.sqrt, 4)
    assert finish(shared) == []
    shared.submit("", math.sqrt, -1)
    assert shared.next_outcome(PATIENCE).error.startswith("ValueError: ")
    assert shared.next_outcome(0) is None


def test_it_knows_the_environments_that_a_program_has_registered():
    process = JobQueue()
    gym.register("OnlyHere-v0", "gymnasium.envs.classic_control:CartPoleEnv")
    try:
        process.submit("spec", gym.spec, "OnlyHere-v0")
        assert finish(process)[0].result.id == "OnlyHere-v0"
    finally:
        del gym.registry["OnlyHere-v0"]
        process.close()


def test_ctrl_c_does_not_reach_it_from_its_first_moment_on():
    process = JobQueue()
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have switched it off for all
    pid = process.start().pid
    signal.signal(signal.SIGINT, before)
    process.submit("pid", os.getpid)
    while process.is_busy:
        os.kill(pid, signal.SIGINT)
        time.sleep(0.01)
    assert finish(process)[0].result == pid
    process.close()


def test_it_ends_with_its_owner_and_not_with_a_fork_of_it():
    process = JobQueue()
    process.submit("sleeps", time.sleep, 2 * PATIENCE)
    pid = process.start().pid
    fork = os.fork()
    if fork == 0:
        process._child.close()
        os._exit(0)
    os.waitpid(fork, 0)
    os.kill(pid, 0)
    assert not process.wait(0.5)
    del process
    gc.collect()
    assert ends(pid)


@pytest.fixture
def slow_start(monkeypatch):
    """Popen's pipe is open and its process not there yet, for as long as ``until`` is not set."""
    fork_exec = subprocess._fork_exec
    gate = SimpleNamespace(inside=threading.Event(), until=threading.Event(), is_over=False)

    def wait_and_start(*args):
        gate.inside.set()
        gate.until.wait(10)
        gate.is_over = True
        return fork_exec(*args)

    monkeypatch.setattr(subprocess, "_fork_exec", wait_and_start)
    return gate


def test_a_new_job_does_not_wait_for_the_process_to_start(slow_start):
    process = JobQueue()
    process.submit("first", os.getpid)
    assert slow_start.inside.wait(PATIENCE)
    process.submit("second", os.getpid)
    assert process.is_busy
    assert not slow_start.is_over
    slow_start.until.set()
    process.close()


def test_a_fork_waits_until_a_process_has_started_and_does_not_inherit_its_pipes(slow_start):
    process = JobQueue()
    process.submit("pid", os.getpid)
    assert slow_start.inside.wait(PATIENCE)
    threading.Timer(0.1, slow_start.until.set).start()
    fork = os.fork()
    if fork == 0:
        time.sleep(30)  # with the pipe, Popen would wait as long
        os._exit(0)
    process.start()
    os.kill(fork, signal.SIGKILL)
    _, status = os.waitpid(fork, 0)
    process.close()
    assert os.WIFSIGNALED(status), "it had ended before"


def test_closing_ends_it_in_the_middle_of_a_job():
    threads = threading.enumerate()
    process = JobQueue()
    process.submit("pid", os.getpid)
    (outcome,) = finish(process)
    process.submit("sleeps", time.sleep, 2 * PATIENCE)
    assert not process.wait(0.2)
    process.close()
    assert ends(outcome.result)
    for thread in threading.enumerate():
        if thread not in threads:
            thread.join(PATIENCE)
            assert not thread.is_alive()
    assert not process.is_busy
