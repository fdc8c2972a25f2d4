"""Evaluation in a process of its own: of the agent as it was, without a trace when it is over."""

import contextlib
import io
import os
import re
import signal
import threading
import time
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
from drifting_env import make_normalized
from drifting_env import make_vec_env as make_drifting
from level_env import LEVEL_ENV
from score_env import Stamp, StampedPPO, make_envs, make_model
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy

from sb3_ext.callbacks.evaluation import worker
from sb3_ext.callbacks.evaluation.callback import Evaluation
from sb3_ext.callbacks.evaluation.worker import EvaluationWorker
from sb3_ext.callbacks.save_normalization import SaveNormalization
from sb3_ext.callbacks.table import Table
from sb3_ext.runs.agents.snapshot import SnapshotFolder
from sb3_ext.runs.agents.statistics import load_statistics
from sb3_ext.runs.play.scoring import play
from sb3_ext.wrappers.curriculum.options import read_curriculum


class AtStep(BaseCallback):
    """Does something once, at a step."""

    def __init__(self, step, act):
        super().__init__()
        self._step, self._act = step, act

    def _on_step(self):
        if self.num_timesteps == self._step:
            self._act()
        return True


class Arrivals(BaseCallback):
    """At which step of training the result of which step arrives."""

    def __init__(self):
        super().__init__()
        self.steps = {}

    def _on_step(self):
        self.steps[self.parent.last_step] = self.num_timesteps
        return True


def make_evaluation(folder=None, kwargs=None, **options):
    make_env = partial(make_envs, **(kwargs or {}))
    settings = {"folder": folder, "verbose": 0, "episodes": 1, "process": True, "busy": "wait", **options}
    return Evaluation(make_env=make_env, callback_after_eval=Arrivals(), **settings)


def is_gone(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


@pytest.fixture(scope="module", autouse=True)
def patience():
    """A busy machine is not what is tested."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(worker, "_PATIENCE", 600.0)
        yield


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A training whose score is best and solved at 600 steps, and whose process is sent Ctrl-C from a terminal."""
    folder = tmp_path_factory.mktemp("run")
    evaluation = make_evaluation(folder, {"goal": 600}, every=200, stop="eval", threshold=-100, window=2)
    seen = {}

    def look():
        seen["pid"] = evaluation._worker.pid
        seen["niceness"] = os.getpriority(os.PRIO_PROCESS, seen["pid"])
        seen["hidden"] = [path.name for path in folder.iterdir() if path.name.startswith(".")]
        os.kill(seen["pid"], signal.SIGINT)

    model = make_model()
    model.learn(2000, callback=[Stamp(), evaluation, AtStep(210, look), AtStep(410, look)])
    return SimpleNamespace(model=model, evaluation=evaluation, folder=folder, **seen)


def test_scores_are_those_of_the_weights_at_the_step_of_the_snapshot(trained):
    file = np.load(trained.folder / "evaluations.npz")
    steps = file["timesteps"].tolist()
    assert steps == [200, 400, 600, trained.model.num_timesteps], "the last weights are evaluated too"
    assert file["results"][:, 0].tolist() == [-abs(step - 600) for step in steps]
    arrivals = trained.evaluation.callback.steps
    assert all(arrivals[step] > step for step in steps[:-1]), "training had gone on"


def test_the_best_model_is_the_snapshot(trained):
    best = StampedPPO.load(trained.folder / "best_model", device="cpu")
    assert (best.num_timesteps, best.policy.action_net.bias.item()) == (600, 600.0)


def test_a_late_result_ends_the_training(trained):
    assert 600 < trained.model.num_timesteps <= 800, "the result of 600 is waited for when 800 is due"
    assert max(trained.model.trained_at) < trained.model.num_timesteps, "trained after the stop"
    assert "the last 2 evaluations is -100" in trained.evaluation.stop_reason


def test_snapshots_are_beside_the_best_model_that_they_may_become(trained):
    """A rename is atomic on one file system only."""
    assert [name.startswith(".evaluation-") for name in trained.hidden] == [True]


def test_nothing_of_the_process_is_left(trained):
    assert trained.niceness == 19
    assert is_gone(trained.pid)
    assert sorted(path.name for path in trained.folder.iterdir()) == ["best_model.zip", "evaluations.npz"]


def train_cartpole(callbacks):
    env = make_vec_env("CartPole-v1", 2, seed=0)
    model = PPO("MlpPolicy", env, n_steps=64, batch_size=64, n_epochs=2, seed=0, verbose=1, device="cpu")
    model.learn(2000, callback=callbacks)
    return model.policy.state_dict()


@pytest.fixture(scope="module")
def meanwhile():
    """A training that goes on while evaluations run: its parameters, the evaluation, and what was printed."""
    # Chooses by chance, which here would take random numbers away from training
    evaluation = Evaluation(every=250, deterministic=False, process=True, callback_after_eval=Arrivals())
    with contextlib.redirect_stdout(io.StringIO()) as output:
        parameters = train_cartpole([evaluation, Table(every_seconds=0)])
    return SimpleNamespace(parameters=parameters, evaluation=evaluation, said=output.getvalue())


def test_training_goes_on_meanwhile_and_is_not_changed(meanwhile):
    without = train_cartpole([])
    for name in without:
        np.testing.assert_array_equal(meanwhile.parameters[name], without[name])
    evaluation = meanwhile.evaluation
    steps = evaluation.evaluations_timesteps
    assert (steps[0], steps[-1]) == (250, 2048)
    assert len(steps) == 9
    assert evaluation.callback.steps[250] > 250


def test_no_line_shows_an_older_result_than_the_one_told_before_it(meanwhile):
    told = shown = None
    for result, of_line in re.findall(r"episode_reward=([\d.]+)|eval/mean_reward ([\d.]+)", meanwhile.said):
        told, shown = result or told, of_line or shown
        assert not of_line or float(of_line) == pytest.approx(float(told), abs=0.06)
    assert shown is not None


@pytest.mark.parametrize("on_new_best", [None, SaveNormalization])
def test_statistics_are_those_of_the_snapshot(tmp_path, on_new_best):
    model = PPO("MlpPolicy", make_normalized(0.1), n_steps=64, batch_size=32, learning_rate=0.01, seed=0, device="cpu")
    make_env = partial(make_normalized, training=False, norm_reward=False)
    settings = dict(every=70, episodes=1, process=True, busy="wait", final=False, verbose=0)
    # SaveNormalization itself saves those of the step at which the result arrives
    called = on_new_best and on_new_best()
    evaluation = Evaluation(make_env=make_env, folder=tmp_path, callback_on_new_best=called, **settings)
    model.learn(140, callback=[evaluation, SaveNormalization()])
    best = PPO.load(tmp_path / "best_model", device="cpu")
    statistics = load_statistics(tmp_path / "best_model", make_drifting())
    assert round(statistics.obs_rms.count) == best.num_timesteps + 1
    assert evaluate_policy(best, statistics, 1)[0] == evaluation.best_mean_reward


@pytest.mark.parametrize(
    ("failure", "said"),
    [("raise", "this environment is broken"), (None, "evaluation process was ended by SIGKILL")],
)
def test_when_the_process_fails_nothing_is_lost(failure, said):
    evaluation = make_evaluation(kwargs={"failure": failure, "home": os.getpid()}, every=200)
    kill = AtStep(204, lambda: failure or os.kill(evaluation._worker.pid, signal.SIGKILL))
    with pytest.warns(UserWarning, match=said):
        make_model().learn(512, callback=[Stamp(), evaluation, kill])
    assert evaluation.evaluations_timesteps == [200, 400, 512]
    assert [results[0] for results in evaluation.evaluations_results] == [200, 400, 512]


@pytest.mark.parametrize(
    ("busy", "said", "steps"),
    [("wait", "Training waits for it", [200, 400, 600, 640]), ("skip", "The new one is left out", [200, 640])],
)
def test_a_process_that_falls_behind_is_reported_when_it_does_and_done_without(busy, said, steps, monkeypatch):
    monkeypatch.setattr(worker, "_PATIENCE", 0.2)
    monkeypatch.setattr(worker, "_SHORT_WAIT", 0.1)
    evaluation = make_evaluation(every=200, busy=busy)
    stop = AtStep(204, lambda: os.kill(evaluation._worker.pid, signal.SIGSTOP))
    with pytest.warns(UserWarning) as warned:
        early = []
        look = AtStep(404, lambda: early.extend(str(warning.message) for warning in warned))
        make_model().learn(640, callback=[Stamp(), evaluation, stop, look])
    messages = [str(warning.message) for warning in warned]
    assert len(messages) == 2
    assert said in early[0]
    assert "Evaluation continues in the training's process" in messages[1]
    assert evaluation.evaluations_timesteps == steps
    assert [results[0] for results in evaluation.evaluations_results] == steps


def test_environments_that_can_not_be_sent_are_evaluated_here():
    lock = threading.Lock()
    evaluation = Evaluation(make_env=lambda: make_envs() if lock else None, every=200, process=True, verbose=0)
    with pytest.warns(UserWarning, match=r"can't be started.*\nEvaluation continues in the training's process"):
        make_model().learn(256, callback=[Stamp(), evaluation])
    assert evaluation.evaluations_timesteps == [200, 256]


def test_an_error_in_training_leaves_no_process_behind(tmp_path):
    def fail():
        raise OSError("disk full")

    evaluation = make_evaluation(tmp_path, every=200)
    with pytest.raises(OSError) as caught:
        make_model().learn(512, callback=[evaluation, AtStep(300, fail)])
    pid = evaluation._worker.pid
    assert not is_gone(pid)
    start = time.monotonic()
    evaluation.close(caught.value)
    evaluation.close()
    assert is_gone(pid)
    assert time.monotonic() - start < 60, "it is not waited for"
    assert list(tmp_path.iterdir()) == []


def test_it_ends_with_a_training_that_is_killed():
    reader, writer = os.pipe()
    killed = os.fork()
    if killed == 0:
        process = EvaluationWorker(make_model(), make_envs(), make_envs, partial(play, episodes=1))
        os.write(writer, str(process.pid).encode())
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(killed, 0)
    pid = int(os.read(reader, 100))
    assert not is_gone(pid)
    end = time.monotonic() + 120
    while not is_gone(pid) and time.monotonic() < end:
        time.sleep(0.05)
    assert is_gone(pid)


def test_a_snapshot_is_played_in_its_stage_of_a_curriculum():
    stages = [{"env_kwargs": {"level": 1.0}, "next": {"steps": 10}}, {"env_kwargs": {"level": 3.0}}]
    curriculum = read_curriculum({"stages": stages, "eval_stage": "current"})
    env = make_vec_env(LEVEL_ENV, wrapper_class=curriculum.wrap)
    model = PPO("MlpPolicy", env, n_steps=8, batch_size=8, device="cpu")
    snapshots = SnapshotFolder(None)
    for stage, score in enumerate((4.0, 12.0)):
        snapshot = snapshots.take(model, stage)
        assert snapshot.score(PPO, env, partial(play, episodes=1)).rewards == (score,)
