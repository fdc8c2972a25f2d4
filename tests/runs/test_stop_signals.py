"""SIGTERM and SIGHUP in a training, and at other times."""

import json
import multiprocessing
import os
import signal
import threading

import pytest
from small_training import TINY, make_model
from stable_baselines3.common.callbacks import ConvertCallback

from sb3_ext.callbacks.report import Report
from sb3_ext.runs.stop_signals import catch_stop_signals, received_signal, release_stop_signals

BOTH = (signal.SIGTERM, signal.SIGHUP)


class Owner:
    def learn(self, *signals):
        for which in signals:
            signal.raise_signal(which)


@pytest.fixture(autouse=True)
def default_actions():
    before = [signal.signal(which, signal.SIG_DFL) for which in BOTH]
    yield
    for which, handler in zip(BOTH, before, strict=True):
        signal.signal(which, handler)


@pytest.fixture
def owner():
    owner = Owner()
    yield owner
    release_stop_signals(owner)


def actions():
    return [signal.getsignal(which) for which in BOTH]


@pytest.mark.parametrize("which", BOTH)
def test_a_training_in_python_is_interrupted_and_its_report_names_the_signal(tmp_path, which):
    def send(local, _):
        if local["self"].num_timesteps >= 300:
            signal.raise_signal(which)
        return True

    model = make_model(tmp_path, **TINY)
    with pytest.raises(KeyboardInterrupt, match=which.name), Report() as report:
        model.learn(2000, callback=[report, ConvertCallback(send)])
    training = json.loads((tmp_path / "run.json").read_text())
    assert (training["state"], training["signal"]) == ("interrupted", which.name)
    assert f"by `{which.name}`" in (tmp_path / "report.md").read_text()
    assert not (tmp_path / "plots").exists(), "whoever sent it may not wait so long"
    assert actions() == [signal.SIG_DFL] * 2


class SwallowsOnce:
    """Python ignores what is raised in a finalizer."""

    def __del__(self):
        signal.raise_signal(signal.SIGTERM)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_interrupt_that_python_swallowed_comes_again(tmp_path):
    def send(local, _):
        if local["self"].num_timesteps == 304:
            SwallowsOnce()
        return True

    model = make_model(tmp_path, **TINY)
    with pytest.raises(KeyboardInterrupt, match="SIGTERM"), Report() as report:
        model.learn(2000, callback=[report, ConvertCallback(send)])
    assert model.num_timesteps == 306


def test_what_is_ignored_stays_ignored_and_a_handler_of_the_program_stays(owner):
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup does
    signal.signal(signal.SIGTERM, handler := lambda *_: None)
    catch_stop_signals(owner)
    owner.learn(*BOTH)
    assert actions() == [handler, signal.SIG_IGN]
    release_stop_signals(owner)
    assert actions() == [handler, signal.SIG_IGN]


def test_the_training_that_started_last_lets_go(owner):
    """Nobody may have ended the one before."""
    catch_stop_signals(owner)
    catch_stop_signals(other := Owner())
    release_stop_signals(owner)
    with pytest.raises(KeyboardInterrupt, match="SIGTERM"):
        other.learn(signal.SIGTERM)
    release_stop_signals(other)
    assert actions() == [signal.SIG_DFL] * 2


def test_a_terminal_that_closes_sends_its_signal_twice(owner):
    catch_stop_signals(owner)
    with pytest.raises(KeyboardInterrupt, match="SIGHUP"):
        owner.learn(signal.SIGHUP)
    owner.learn(signal.SIGHUP)


def test_nothing_is_caught_in_another_thread(owner):
    thread = threading.Thread(target=catch_stop_signals, args=(owner,))
    thread.start()
    thread.join()
    assert actions() == [signal.SIG_DFL] * 2


def second_signal():
    catch_stop_signals(owner := Owner())
    try:
        owner.learn(signal.SIGTERM)
    except KeyboardInterrupt:
        owner.learn(signal.SIGTERM)


def second_ctrl_c():
    catch_stop_signals(owner := Owner(), ctrl_c=True)
    try:
        owner.learn(signal.SIGINT)
    except KeyboardInterrupt:
        owner.learn(signal.SIGINT)


def ctrl_c_after_sigterm():
    catch_stop_signals(owner := Owner(), ctrl_c=True)
    try:
        owner.learn(signal.SIGTERM)
    except KeyboardInterrupt:
        owner.learn(signal.SIGINT)


def outside_of_learn():
    catch_stop_signals(owner := Owner())
    signal.raise_signal(signal.SIGTERM)
    release_stop_signals(owner)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize(
    ("scene", "which"),
    [
        (second_signal, signal.SIGTERM),
        (outside_of_learn, signal.SIGTERM),
        (second_ctrl_c, signal.SIGINT),
        (ctrl_c_after_sigterm, signal.SIGINT),
    ],
)
def test_otherwise_the_signal_ends_the_process_at_once(scene, which):
    process = multiprocessing.get_context("fork").Process(target=scene)
    process.start()
    process.join()
    assert process.exitcode == -which


def test_ctrl_c_raises_keyboard_interrupt_again_after_the_training(owner):
    catch_stop_signals(owner, ctrl_c=True)
    with pytest.raises(KeyboardInterrupt):
        owner.learn(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is signal.SIG_DFL
    release_stop_signals(owner)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_signal_can_be_chosen(owner):
    catch_stop_signals(owner, more=["USR1"])
    with pytest.raises(KeyboardInterrupt, match="SIGUSR1"):
        owner.learn(signal.SIGUSR1)
    assert received_signal() == signal.SIGUSR1
    release_stop_signals(owner)
    assert signal.getsignal(signal.SIGUSR1) is signal.SIG_DFL


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_fork_of_the_training_ends_as_if_nothing_was_caught(owner):
    catch_stop_signals(owner)
    pid = os.fork()
    if pid == 0:
        owner.learn(signal.SIGTERM)
        os._exit(0)
    _, status = os.waitpid(pid, 0)
    assert os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGTERM


def test_nothing_is_printed_to_a_terminal_that_is_gone():
    master, terminal = os.openpty()
    pid = os.fork()
    if pid == 0:
        os.dup2(terminal, 1)
        catch_stop_signals(owner := Owner())
        try:
            owner.learn(signal.SIGHUP)
        except KeyboardInterrupt:
            os.write(1, b"Saving")
            os._exit(0)
    os.close(terminal)
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    with pytest.raises(OSError):
        os.read(master, 100)  # nothing was written, and nobody has it open
    os.close(master)
