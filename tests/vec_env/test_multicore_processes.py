"""MulticoreVecEnv survives what happens to processes: exceptions, kills, Ctrl-C, and being forgotten."""

import functools
import gc
import os
import signal
import subprocess
import sys
import time
import traceback

import gymnasium as gym
import numpy as np
import pytest
from talkative_env import N_ENVS, FailingEnv, UnpicklableError, make_fns, random_actions, worker_pids

from sb3_ext.vec_env.multicore import MulticoreVecEnv


@pytest.fixture(autouse=True)
def no_test_hangs():
    def give_up(*_):
        raise TimeoutError("the test hangs")

    signal.signal(signal.SIGALRM, give_up)
    signal.alarm(60)
    yield
    signal.alarm(0)


@pytest.mark.parametrize("failing", [0, 5])
def test_an_exception_arrives_with_its_type_and_place_and_does_no_harm(failing, closing):
    fns = [functools.partial(FailingEnv, number, failing) for number in range(N_ENVS)]
    vec_env = closing(MulticoreVecEnv(fns, n_workers=3, start_method="fork"))
    vec_env.reset()
    actions = random_actions(vec_env.action_space, 1)[0]
    for _ in range(2):
        vec_env.step(actions)
    with pytest.raises(ValueError, match="the pole is on fire") as error:
        vec_env.step(actions)
    text = "".join(traceback.format_exception(error.value))
    assert "raise self.make_error()" in text
    if failing > 0 or sys.version_info >= (3, 11):
        assert f"Environment {failing}, in " in text
    vec_env.reset()
    assert vec_env.step(actions)[0].shape == (N_ENVS, 4)


def test_an_exception_that_cannot_be_pickled_arrives_as_a_runtime_error(closing):
    fns = [functools.partial(FailingEnv, number, 1, UnpicklableError) for number in range(2)]
    vec_env = closing(MulticoreVecEnv(fns, n_workers=2, start_method="fork"))
    vec_env.reset()
    with pytest.raises(RuntimeError, match="environment 1: UnpicklableError: no way out"):
        for _ in range(3):
            vec_env.step(np.zeros(2, dtype=np.int64))


def test_an_environment_that_cannot_be_made_leaves_no_process(closing):
    before = worker_pids()
    with pytest.raises(gym.error.NameNotFound, match="Nowhere"):
        MulticoreVecEnv([*make_fns(n_envs=3), lambda: gym.make("Nowhere-v0")], n_workers=2, start_method="fork")
    assert worker_pids() == before


class LeavingEnv(gym.Env):
    """Ends its process, where it is told an exit code."""

    observation_space = action_space = gym.spaces.Discrete(2)

    def __init__(self, code):
        self._code = code

    def reset(self, *, seed=None, options=None):
        return 0, {}

    def step(self, action):
        return (0, 0.0, False, False, {}) if self._code is None else os._exit(self._code)


@pytest.mark.parametrize("code", [0, 3])
def test_the_exit_code_of_a_worker_that_ended_by_itself_is_told(code, closing):
    # The main process plays the first environment itself
    make_envs = [functools.partial(LeavingEnv, None), functools.partial(LeavingEnv, code)]
    vec_env = closing(MulticoreVecEnv(make_envs, n_workers=2, start_method="fork"))
    vec_env.reset()
    with pytest.raises(RuntimeError, match=f"ended with exit code {code}"):
        vec_env.step(np.zeros(2, int))


@pytest.mark.parametrize("start_method", ["forkserver", "spawn", "fork"])
def test_a_killed_worker_is_an_error_and_not_a_hang(start_method, closing):
    vec_env = closing(MulticoreVecEnv(make_fns(n_envs=6), n_workers=3, start_method=start_method))
    vec_env.reset()
    vec_env.step_async(random_actions(vec_env.action_space, 1, 6)[0])
    vec_env._workers[0].process.kill()
    with pytest.raises(RuntimeError, match=r"environments 2 to 3 \(pid \d+\) was ended by SIGKILL \(out of memory"):
        for actions in random_actions(vec_env.action_space, 50, 6):
            vec_env.step_wait()
            vec_env.step_async(actions)
    with pytest.raises(RuntimeError, match="can't be used any more: The worker process of environments 2 to 3"):
        vec_env.reset()


def test_calls_in_the_wrong_order_get_an_error(closing):
    vec_env = closing(MulticoreVecEnv(make_fns(), n_workers=2, start_method="fork"))
    vec_env.reset()
    with pytest.raises(RuntimeError, match="needs a call of step_async"):
        vec_env.step_wait()
    actions = random_actions(vec_env.action_space, 1)[0]
    vec_env.step_async(actions)
    for call in (lambda: vec_env.step_async(actions), lambda: vec_env.get_attr("colour")):
        with pytest.raises(RuntimeError, match="Call step_wait"):
            call()
    vec_env.reset()
    vec_env.step(actions)


def test_an_interrupted_one_says_so_and_can_be_closed():
    fns = [functools.partial(FailingEnv, number, 0, KeyboardInterrupt) for number in range(4)]
    vec_env = MulticoreVecEnv(fns, n_workers=2, start_method="fork")
    vec_env.reset()
    with pytest.raises(KeyboardInterrupt):
        for _ in range(3):
            vec_env.step(np.zeros(4, dtype=np.int64))
    with pytest.raises(RuntimeError, match="can't be used any more: it was interrupted"):
        vec_env.reset()
    vec_env.close()


def test_closing_twice_and_dropping_end_the_processes():
    gc.collect()  # ends the processes of what earlier tests have dropped
    before = worker_pids()
    vec_env = MulticoreVecEnv(make_fns(), n_workers=3, start_method="fork")
    vec_env.close()
    vec_env.close()
    assert worker_pids() == before
    with pytest.raises(RuntimeError, match="it is closed"):
        vec_env.reset()
    dropped = MulticoreVecEnv(make_fns(), n_workers=3, start_method="fork")
    assert len(worker_pids() - before) == 2
    del dropped
    gc.collect()
    assert worker_pids() == before


def test_a_fork_of_the_main_process_does_not_close_the_workers(closing):
    vec_env = closing(MulticoreVecEnv(make_fns(), n_workers=2, start_method="fork"))
    vec_env.reset()
    pid = os.fork()
    if pid == 0:
        vec_env.close()
        os._exit(0)
    os.waitpid(pid, 0)
    vec_env.step(random_actions(vec_env.action_space, 1)[0])


SCRIPT = """
import signal
import sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore Ctrl-C
import numpy as np
from stable_baselines3.common.env_util import make_vec_env
from sb3_ext.vec_env.multicore import MulticoreVecEnv

if __name__ == "__main__":
    kwargs = {"n_workers": 3, "start_method": sys.argv[1]}
    vec_env = make_vec_env("Pendulum-v1", 6, vec_env_cls=MulticoreVecEnv, vec_env_kwargs=kwargs)
    vec_env.reset()
    print("ready", flush=True)
    n_steps = int(sys.argv[2])
    while n_steps != 0:
        vec_env.step(np.zeros((6, 1), dtype=np.float32))
        n_steps -= 1
"""


def start_script(folder, start_method, n_steps):
    script = folder / "script.py"
    script.write_text(SCRIPT)
    command = [sys.executable, script, start_method, str(n_steps)]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    assert process.stdout.readline() == "ready\n"
    time.sleep(0.2)
    return process


def assert_group_ends(group):
    """All processes of the group end, within some seconds."""
    for _ in range(100):
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return
        time.sleep(0.1)
    os.killpg(group, signal.SIGKILL)
    raise AssertionError("processes are left")


@pytest.mark.parametrize("start_method", ["forkserver", "fork"])
def test_ctrl_c_ends_all_processes_with_one_traceback(start_method, tmp_path):
    shared_memory = set(os.listdir("/dev/shm"))
    process = start_script(tmp_path, start_method, -1)
    os.killpg(process.pid, signal.SIGINT)
    _, errors = process.communicate()
    assert errors.count("Traceback") == 1 and errors.rstrip().endswith("KeyboardInterrupt")
    assert_group_ends(process.pid)
    assert set(os.listdir("/dev/shm")) <= shared_memory


@pytest.mark.parametrize("start_method", ["forkserver", "fork"])
def test_workers_end_when_the_main_process_is_killed(start_method, tmp_path):
    process = start_script(tmp_path, start_method, -1)
    process.kill()
    process.communicate()
    assert_group_ends(process.pid)


def test_a_script_that_forgets_to_close_ends_quietly(tmp_path):
    process = start_script(tmp_path, "forkserver", 5)
    _, errors = process.communicate()
    assert process.returncode == 0 and errors == ""
    assert_group_ends(process.pid)
