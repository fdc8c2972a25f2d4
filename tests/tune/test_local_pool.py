"""Processes that train for a study: what happens when they die, are stopped, or their parent is killed."""

import os
import signal
import subprocess
import sys

import psutil
import pytest

from sb3_ext.tune.local_pool import LocalPool
from sb3_ext.tune.pool import Done, Lost, Reached, Refused
from sb3_ext.zoo.trial_training import TrialTraining, train_trial

SECTION = {"policy": "MlpPolicy", "n_timesteps": 300, "n_steps": 64, "batch_size": 64, "n_epochs": 2}


def make_training(timesteps=200, section=SECTION, seed=0):
    return TrialTraining("ppo", "CartPole-v1", section, seed, timesteps, evaluations=2, episodes=1)


ENDLESS = make_training(timesteps=10**9)


@pytest.fixture(scope="module")
def pool(tmp_path_factory):
    pool = LocalPool(1, tmp_path_factory.mktemp("pool") / "workers.log")
    yield pool
    pool.close()


def next_event(pool):
    (event,) = pool.wait(60)
    return event


def worker_of(pool):
    (worker,) = [*pool._busy.values(), *pool._idle]
    return worker.process


# First, because the others can use its worker
def test_a_stopped_training_has_no_more_events_and_its_worker_is_replaced(pool):
    pool.submit("a", ENDLESS)
    pool.stop("a")
    pool.submit("a", make_training(section={}))
    assert isinstance(next_event(pool), Refused)


def test_a_training_waits_for_answers_and_its_curve_is_the_same_as_in_one_process(pool):
    pool.submit("a", make_training())
    first = next_event(pool)
    assert isinstance(first, Reached)
    assert pool.wait(0.2) == []
    pool.answer("a", True)
    second = next_event(pool)
    pool.answer("a", True)
    done = next_event(pool)
    here = train_trial(make_training(), lambda point: True)
    assert [point[:2] for point in (first.point, second.point)] == [point[:2] for point in here.points]
    assert isinstance(done, Done)
    assert done.curve.points == (first.point, second.point)


def test_a_negative_answer_ends_a_training_and_the_worker_stays(pool):
    before = worker_of(pool).pid
    pool.submit("a", make_training())
    next_event(pool)
    pool.answer("a", False)
    assert next_event(pool).curve.is_stopped
    assert worker_of(pool).pid == before


def test_a_mistake_is_refused(pool):
    pool.submit("a", make_training(section={**SECTION, "gama": 1}))
    event = next_event(pool)
    assert isinstance(event, Refused)
    assert "gama" in event.message


def test_ctrl_c_does_not_reach_a_worker(pool):
    pool.submit("a", make_training())
    worker_of(pool).send_signal(signal.SIGINT)
    assert isinstance(next_event(pool), Reached)
    pool.answer("a", False)
    assert isinstance(next_event(pool), Done)


def test_a_training_that_is_lost_three_times_in_a_row_ends_with_an_error(pool):
    events = []
    for _ in range(3):
        pool.submit("a", ENDLESS)
        worker_of(pool).kill()
        events.append(next_event(pool))
    assert [type(event) for event in events] == [Lost, Lost, Done]
    assert "SIGKILL" in events[0].reason
    assert "lost 3 times in a row" in events[2].curve.error


def test_close_ends_a_training_at_once(tmp_path):
    pool = LocalPool(1)
    pool.submit("a", ENDLESS)
    process = next(iter(pool._busy.values())).process
    pool.close()
    assert process.poll() is not None
    assert pool.wait(0) == []


def test_workers_end_when_their_parent_is_killed(tmp_path):
    script = tmp_path / "study.py"
    script.write_text(
        "import sys, time\n"
        "from sb3_ext.tune.local_pool import LocalPool\n"
        "from sb3_ext.zoo.trial_training import TrialTraining\n"
        "pool = LocalPool(2)\n"
        "for key in range(2):\n"
        "    pool.submit(key, TrialTraining('ppo', 'CartPole-v1', {}, 0, 10**9))\n"
        "print([worker.process.pid for worker in pool._busy.values()], flush=True)\n"
        "time.sleep(60)\n"
    )
    with subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, text=True) as parent:
        workers = [psutil.Process(int(pid)) for pid in parent.stdout.readline().strip("[]\n").split(",")]
        os.kill(parent.pid, signal.SIGKILL)
    gone, alive = psutil.wait_procs(workers, timeout=30)
    assert (len(gone), alive) == (2, [])
