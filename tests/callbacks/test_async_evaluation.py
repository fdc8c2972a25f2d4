"""Evaluation in a process of its own: of the agent as it was, without a trace when it is over."""

import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

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

from sb3_ext.callbacks.async_evaluation import EvaluationProcess, EvaluationSetup
from sb3_ext.callbacks.evaluation import Evaluation
from sb3_ext.callbacks.save_normalization import SaveNormalization
from sb3_ext.callbacks.snapshot import Snapshot
from sb3_ext.runs.normalization import load_statistics
from sb3_ext.runs.scoring import play
from sb3_ext.wrappers.curriculum_config import read_curriculum


class Look(BaseCallback):
    """Notes at which step of training a result arrives, and which process it comes from."""

    def __init__(self):
        super().__init__()
        self.arrived = []
        self.pids = set()

    def _on_step(self):
        self.arrived.append((self.parent.last_step, self.num_timesteps))
        if self.parent._background is not None:
            self.pids.add(self.parent._background.pid)
        return True


def make_evaluation(folder=None, kwargs=None, **options):
    make_env = partial(make_envs, **(kwargs or {}))
    settings = {"folder": folder, "verbose": 0, "episodes": 1, "process": True, "busy": "wait", **options}
    return Evaluation(make_env=make_env, callback_after_eval=Look(), **settings)


def is_gone(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def test_scores_are_those_of_the_weights_at_the_step_of_the_snapshot(tmp_path):
    model = make_model()
    evaluation = make_evaluation(tmp_path, {"goal": 600}, every=200)
    model.learn(1100, callback=[Stamp(), evaluation])
    file = np.load(tmp_path / "evaluations.npz")
    steps = file["timesteps"].tolist()
    assert steps == [200, 400, 600, 800, 1000, model.num_timesteps], "the last weights are evaluated too"
    assert file["results"][:, 0].tolist() == [-abs(step - 600) for step in steps]

    look = evaluation.callback
    assert look.arrived[2][0] == 600 < look.arrived[2][1], "other weights are there when the best score arrives"
    best = StampedPPO.load(tmp_path / "best_model", device="cpu")
    assert (best.num_timesteps, best.policy.action_net.bias.item()) == (600, 600.0)
    assert os.getpid() not in look.pids and all(map(is_gone, look.pids))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["best_model.zip", "evaluations.npz"]


def test_training_goes_on_meanwhile_and_is_not_changed(capsys):
    def train(callbacks):
        env = make_vec_env("CartPole-v1", 2, seed=0)
        model = PPO("MlpPolicy", env, n_steps=64, batch_size=64, n_epochs=2, seed=0, device="cpu")
        model.learn(3000, callback=callbacks)
        return model.policy.state_dict()

    # Chooses by chance, which here would take random numbers away from training
    evaluation = Evaluation(every=250, deterministic=False, process=True, callback_after_eval=Look())
    ours, without = train([evaluation]), train([])
    for name in without:
        np.testing.assert_array_equal(ours[name], without[name])
    steps = evaluation.evaluations_timesteps
    assert steps[0] == 250 and steps[-1] == 3072
    assert len(steps) + evaluation.skipped == 13
    first = evaluation.callback.arrived[0]
    assert first[1] > first[0]
    said = capsys.readouterr().out
    assert (f"still running: {evaluation.skipped}." in said) == (evaluation.skipped > 0)


@pytest.mark.parametrize("normalise_here_too", [False, True])
def test_statistics_are_those_of_the_snapshot(tmp_path, normalise_here_too):
    model = PPO("MlpPolicy", make_normalized(0.1), n_steps=64, batch_size=32, learning_rate=0.01, seed=0, device="cpu")
    make_env = partial(make_normalized, training=False, norm_reward=False)
    settings = dict(folder=tmp_path, every=70, episodes=1, process=True, busy="wait", final=False, verbose=0)
    evaluation = Evaluation(make_env=make_env, **settings)
    model.learn(140, callback=[evaluation, SaveNormalization()] if normalise_here_too else evaluation)
    best = PPO.load(tmp_path / "best_model", device="cpu")
    statistics = load_statistics(tmp_path / "best_model", make_drifting())
    assert round(statistics.obs_rms.count) == best.num_timesteps + 1
    assert evaluate_policy(best, statistics, 1)[0] == evaluation.best_mean_reward


@pytest.mark.parametrize("failure", ["raise", "exit"])
def test_when_the_process_fails_nothing_is_lost(failure, tmp_path):
    evaluation = make_evaluation(tmp_path, {"failure": failure, "home": os.getpid()}, every=200)
    said = "this environment is broken" if failure == "raise" else r"evaluation process ended \(3\)"
    with pytest.warns(UserWarning, match=said):
        make_model().learn(512, callback=[Stamp(), evaluation])
    assert evaluation.evaluations_timesteps == [200, 400, 512]
    assert [results[0] for results in evaluation.evaluations_results] == [200, 400, 512]


def test_environments_that_can_not_be_sent_are_evaluated_here():
    lock = __import__("threading").Lock()
    evaluation = Evaluation(make_env=lambda: make_envs() if lock else None, every=200, process=True, verbose=0)
    with pytest.warns(UserWarning, match="can't be started.*\nEvaluation goes on in the process of the training"):
        make_model().learn(256, callback=[Stamp(), evaluation])
    assert evaluation.evaluations_timesteps == [200, 256]


def test_it_stops_when_a_late_result_solves_the_environment():
    model = make_model()
    evaluation = make_evaluation(every=200, stop="eval", threshold=500, window=2)
    model.learn(2000, callback=[Stamp(), evaluation])
    assert 600 < model.num_timesteps <= 800, "the result of 600 is waited for when 800 is due"
    assert max(model.trained_at) < model.num_timesteps
    assert "the last 2 evaluations is 500" in evaluation.stop_reason


def test_an_error_in_training_leaves_no_process_behind(tmp_path):
    class Fail(BaseCallback):
        def _on_step(self):
            if self.num_timesteps >= 300:
                raise OSError("disk full")
            return True

    evaluation = make_evaluation(tmp_path, {"delay": 60.0}, every=200)
    with pytest.raises(OSError) as caught:
        make_model().learn(512, callback=[evaluation, Fail()])
    pid = evaluation._background.pid
    assert not is_gone(pid)
    start = time.monotonic()
    evaluation.close(caught.value)
    evaluation.close()
    assert is_gone(pid)
    assert time.monotonic() - start < 10
    assert list(tmp_path.iterdir()) == []


def make_process(**kwargs):
    score_agent = partial(play, episodes=1)
    return EvaluationProcess(EvaluationSetup(partial(make_envs, **kwargs), StampedPPO, score_agent))


def test_ctrl_c_in_the_terminal_is_for_the_training_alone(tmp_path):
    model = make_model()
    model._setup_learn(0, Stamp())
    process = make_process()
    try:
        os.kill(process.pid, signal.SIGINT)
        process.request(Snapshot.take(model, tmp_path))
        with pytest.raises(TimeoutError):
            process.answer(timeout=0.01)
        os.kill(process.pid, signal.SIGINT)
        assert len(process.answer(timeout=60).rewards) == 1
        assert os.getpriority(os.PRIO_PROCESS, process.pid) == 19
    finally:
        process.close()


ORPHAN = """
import os, signal
from test_async_evaluation import make_process
print(make_process().pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_it_ends_with_the_training():
    path = os.pathsep.join(str(folder) for folder in (Path(__file__).parent, Path(__file__).parent.parent))
    killed = subprocess.run(
        [sys.executable, "-c", ORPHAN], env={**os.environ, "PYTHONPATH": path}, capture_output=True, check=False
    )
    pid = int(killed.stdout)
    end = time.monotonic() + 30
    while not is_gone(pid) and time.monotonic() < end:
        time.sleep(0.1)
    assert is_gone(pid)


def test_a_snapshot_is_played_in_its_stage_of_a_curriculum(tmp_path):
    stages = [{"env_kwargs": {"level": 1.0}, "next": {"steps": 10}}, {"env_kwargs": {"level": 3.0}}]
    curriculum = read_curriculum({"stages": stages, "eval_stage": "current"})
    env = make_vec_env(LEVEL_ENV, wrapper_class=curriculum.wrap)
    model = PPO("MlpPolicy", env, n_steps=8, batch_size=8, device="cpu")
    for stage, score in enumerate((4.0, 12.0)):
        snapshot = Snapshot.take(model, tmp_path, stage)
        assert snapshot.score(PPO, env, partial(play, episodes=1)).rewards == (score,)
