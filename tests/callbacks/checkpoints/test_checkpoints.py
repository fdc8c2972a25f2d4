"""The callback: which checkpoints there are after a training, what they know, and what becomes of it when it breaks."""

import os
import signal
import warnings

import gymnasium as gym
import imageio_ffmpeg
import pytest
import torch as th
from drifting_env import DriftingEnv, make_normalized, make_vec_env
from rl_zoo3.utils import get_callback_list
from stable_baselines3 import DQN, PPO
from stable_baselines3.common.callbacks import BaseCallback, EvalCallback
from stable_baselines3.common.env_util import make_vec_env as make_gym_vec_env
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.vec_env import VecNormalize

from sb3_ext import PPOExt
from sb3_ext.callbacks.checkpoints.callback import Checkpoints, CheckpointsOptions
from sb3_ext.callbacks.evaluation.callback import Evaluation
from sb3_ext.callbacks.save_normalization import SaveNormalization
from sb3_ext.common.options import read_switch
from sb3_ext.runs.agents.checkpoint import (
    BEST,
    LAST,
    Checkpoint,
    best_video,
    find_checkpoints,
    find_videos,
    save_model,
    step_name,
)
from sb3_ext.runs.agents.statistics import load_statistics
from sb3_ext.runs.play.episode_table import EpisodeTable

SILENT = {"table": False, "video": False}


def make_model(env=None, algorithm=PPO, **settings):
    tiny = {"n_steps": 64, "batch_size": 64, "n_epochs": 1, "policy_kwargs": {"net_arch": [4]}, "seed": 0}
    return algorithm("MlpPolicy", env or make_vec_env(), device="cpu", **{**tiny, **settings})


def make_eval(folder, env=None, **kwargs):
    settings = {"best_model_save_path": str(folder), "n_eval_episodes": 2, "eval_freq": 70, "verbose": 0}
    return EvalCallback(env or make_vec_env(), **{**settings, **kwargs})


def steps(folder):
    return [checkpoint.step for checkpoint in find_checkpoints(folder) if checkpoint.kind == "step"]


class At(BaseCallback):
    """Does something at a step."""

    def __init__(self, step, what):
        super().__init__()
        self._at, self._what = step, what

    def _on_step(self):
        if self.num_timesteps == self._at:
            self._what(self.model)
        return True


def interrupt(model):
    raise KeyboardInterrupt


def fail(model):
    raise RuntimeError("the simulator broke")


@pytest.mark.parametrize("algorithm", [PPO, PPOExt])
def test_checkpoints_are_there_every_n_steps_and_the_last_ones_stay(tmp_path, algorithm):
    model = make_model(make_gym_vec_env("CartPole-v1", 2), algorithm, n_steps=64)
    model.learn(256, callback=Checkpoints(str(tmp_path), every=50, keep=3, **SILENT))
    assert steps(tmp_path) == [150, 200, 250]
    last = Checkpoint(tmp_path, LAST)
    assert last.step == 256
    # The last update is in it, which came after the last step
    trained = [parameter.detach() for parameter in model.policy.parameters()]
    loaded = algorithm.load(last.model, device="cpu").policy.parameters()
    assert all(th.equal(a, b) for a, b in zip(trained, loaded, strict=True))
    assert sorted(path.name for path in (tmp_path / "checkpoints").iterdir()) == [
        "last_model.json",
        *(f"rl_model_{step}_steps.{kind}" for step in (150, 200, 250) for kind in ("json", "state")),
    ]


def test_a_resumed_run_goes_on_with_the_names(tmp_path):
    make_model().learn(128, callback=Checkpoints(str(tmp_path), every=50, keep=3, **SILENT))
    model = PPO.load(Checkpoint(tmp_path, LAST).model, env=make_vec_env(), device="cpu")
    model.learn(128, callback=Checkpoints(str(tmp_path), every=50, keep=3, **SILENT), reset_num_timesteps=False)
    assert steps(tmp_path) == [150, 200, 250]


def test_the_metrics_are_those_of_the_step(tmp_path):
    pending = {}

    class Probe(BaseCallback):
        def _on_step(self):
            self.logger.record("probe/step", self.num_timesteps)
            if self.num_timesteps == 100:
                pending.update(self.logger.name_to_value)
            return True

    make_model().learn(200, callback=[Probe(), Checkpoints(str(tmp_path), every=50, **SILENT)])
    early = Checkpoint(tmp_path, step_name(50)).read_record()
    assert early["metrics"] == {"probe/step": 50.0} and early["metric_steps"] == {"probe/step": 50}
    record = Checkpoint(tmp_path, step_name(100)).read_record()
    # Written at the end of the first rollout
    assert record["metrics"]["time/total_timesteps"] == record["metric_steps"]["time/total_timesteps"] == 64
    # Recorded by the update after it, and in no row yet
    assert record["metrics"]["train/loss"] == pytest.approx(pending["train/loss"])
    assert record["metric_steps"]["train/loss"] == 100
    assert record["metrics"]["probe/step"] == record["metric_steps"]["probe/step"] == 100
    later = Checkpoint(tmp_path, step_name(150)).read_record()
    assert later["metrics"]["time/total_timesteps"] == 128


def test_the_best_model_has_the_metrics_of_its_evaluation_and_its_statistics(tmp_path):
    env = make_normalized(0.1)
    evaluation = make_eval(tmp_path, make_normalized(training=False, norm_reward=False))
    callbacks = [Checkpoints(str(tmp_path), **SILENT), evaluation]
    make_model(env, learning_rate=0.01).learn(128, callback=callbacks)
    best = Checkpoint(tmp_path, BEST)
    record = best.read_record()
    assert record["kind"] == "best" and record["step"] == best.step == 70
    assert record["metrics"]["eval/mean_reward"] == pytest.approx(evaluation.best_mean_reward)
    assert record["metric_steps"]["eval/mean_reward"] == 70
    model = PPO.load(best.model, device="cpu")
    score, _ = evaluate_policy(model, load_statistics(best.model, make_vec_env()), 2)
    assert score == pytest.approx(evaluation.best_mean_reward)


def test_a_best_model_that_was_evaluated_beside_training_has_the_metrics_of_its_own_step(tmp_path):
    class Late(EvalCallback):
        """Takes a snapshot at 30 steps, and knows its score at 100."""

        def _on_step(self):
            self.logger.record("probe/step", self.num_timesteps)
            if self.num_timesteps == 30:
                save_model(self.model, tmp_path / BEST)
                self.logger.dump(30)
            if self.num_timesteps == 100:
                self.logger.record("eval/mean_reward", 12.0)
                self.logger.record("eval/step", 30)
                self.callback_on_new_best.on_step()
            return True

    late = Late(make_vec_env(), best_model_save_path=str(tmp_path))
    make_model().learn(128, callback=[late, Checkpoints(**SILENT)])
    record = Checkpoint(tmp_path, BEST).read_record()
    assert record["step"] == 30
    assert record["metrics"] == {"eval/mean_reward": 12.0, "eval/step": 30.0, "probe/step": 30.0}
    assert set(record["metric_steps"].values()) == {30}


def test_what_happened_at_a_new_best_model_still_happens_once(tmp_path):
    seen = []
    evaluation = make_eval(tmp_path, callback_on_new_best=At(70, lambda model: seen.append(model.num_timesteps)))
    callbacks = [Checkpoints(str(tmp_path), **SILENT), evaluation, SaveNormalization()]
    model = make_model(make_normalized())
    evaluation.eval_env = make_normalized(training=False, norm_reward=False)
    model.learn(128, callback=callbacks)
    attached = evaluation.callback_on_new_best
    model.learn(64, callback=callbacks, reset_num_timesteps=False)
    assert seen == [70] and evaluation.callback_on_new_best is attached
    load_statistics(tmp_path / BEST, make_vec_env())


def test_everything_is_recorded_while_training_goes_on(tmp_path):
    def make_env(**kwargs):
        kwargs = {"max_episode_steps": 20, **kwargs}
        return VecNormalize(make_gym_vec_env("CartPole-v1", 2, env_kwargs=kwargs), norm_obs=True)

    evaluation = Evaluation(every=100, episodes=2, folder=tmp_path, verbose=0)
    checkpoints = Checkpoints(every=150, verbose=2, deterministic=False, wait=300)
    callbacks = [evaluation, SaveNormalization(), checkpoints]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        make_model(make_env()).learn(256, callback=callbacks)
    found = {checkpoint.name: checkpoint for checkpoint in find_checkpoints(tmp_path)}
    assert set(found) == {BEST, LAST, step_name(150)}
    for checkpoint in found.values():
        video = checkpoint.video(checkpoint.step)
        table = EpisodeTable.from_csv(checkpoint.table)
        assert 2 <= len(table) <= 20
        assert imageio_ffmpeg.count_frames_and_secs(str(video))[0] == len(table) + 1
        # Rewards are normalised, as in training
        assert (table["reward"] == 1).all() and (table["seen_reward"] != 1).any()
    assert best_video(tmp_path) == found[BEST].video(found[BEST].step)
    assert len(find_videos(tmp_path)) >= 3
    assert not list(tmp_path.rglob(".*"))


def test_an_environment_that_cant_be_rendered_is_told_of_once_and_has_tables(tmp_path):
    checkpoints = Checkpoints(str(tmp_path), DriftingEnv, every=60, video=True, wait=300)
    with pytest.warns(UserWarning, match="can't be rendered: its render mode is None") as caught:
        make_model().learn(128, callback=checkpoints)
    assert len(caught) == 1
    assert not checkpoints._recorder._wants_video
    assert EpisodeTable.from_csv(Checkpoint(tmp_path, LAST).table)["truncated"][-1]
    assert not list((tmp_path / "videos").iterdir())


def test_without_an_environment_to_play_in_models_are_saved_all_the_same(tmp_path):
    with pytest.warns(UserWarning, match=r"no tables and no videos.*have no spec.*make_env=…"):
        make_model().learn(64, callback=Checkpoints(str(tmp_path)))
    assert Checkpoint(tmp_path, LAST).step == 64


@pytest.mark.parametrize(("what", "error"), [(interrupt, KeyboardInterrupt), (fail, RuntimeError)])
def test_a_training_that_breaks_off_leaves_its_last_model(tmp_path, what, error):
    checkpoints = Checkpoints(str(tmp_path), "CartPole-v1", every=50)
    model = make_model(make_gym_vec_env("CartPole-v1", 1))
    with pytest.raises(error) as caught:
        model.learn(128, callback=[checkpoints, At(101, what)])
    process = checkpoints._recorder._jobs
    checkpoints.close(caught.value)
    checkpoints.close(caught.value)
    assert Checkpoint(tmp_path, LAST).step == 101
    assert steps(tmp_path) == [50, 100]
    assert process.wait(60)
    assert not list(tmp_path.rglob(".unfinished*"))


def test_recording_that_cant_keep_up_is_reported_when_it_happens(tmp_path):
    early = []
    with pytest.warns(UserWarning, match="checkpoints have no table or video") as warned:
        look = At(65, lambda model: early.extend(str(warning.message) for warning in warned))
        checkpoints = Checkpoints(str(tmp_path), DriftingEnv, every=4, video=False, wait=0)
        make_model().learn(66, callback=[checkpoints, look])
    assert len(early) == 1
    assert early[0].startswith("Recording can't keep up")
    assert sum("keep up" in str(warning.message) for warning in warned) == 1


def test_a_broken_model_does_not_take_the_place_of_the_last_good_one(tmp_path):
    def break_it(model):
        next(model.policy.parameters()).data.fill_(float("nan"))
        raise ValueError("the distribution has NaN")

    checkpoints = Checkpoints(str(tmp_path), every=50, **SILENT)
    with pytest.raises(ValueError) as caught:
        make_model().learn(128, callback=[checkpoints, At(101, break_it)])
    checkpoints.close(caught.value)
    assert Checkpoint(tmp_path, LAST).step == 100


def test_what_a_killed_run_left_is_removed_by_the_next_one(tmp_path):
    pid = os.fork()
    if pid == 0:
        kill = At(50, lambda model: os.kill(os.getpid(), signal.SIGKILL))
        make_model().learn(64, callback=[Checkpoints(str(tmp_path), every=20, **SILENT), kill])
    os.waitpid(pid, 0)
    (tmp_path / ".unfinished-1-last_model.zip").write_bytes(b"half")
    assert [checkpoint.name for checkpoint in find_checkpoints(tmp_path)] == [step_name(20), step_name(40), LAST]
    for checkpoint in find_checkpoints(tmp_path):
        assert PPO.load(checkpoint.model, device="cpu").num_timesteps == checkpoint.read_record()["step"]
    make_model().learn(64, callback=Checkpoints(str(tmp_path), **SILENT))
    assert not list(tmp_path.glob(".*"))


def test_it_works_with_an_off_policy_algorithm_from_a_config_and_finds_the_folder(tmp_path):
    options = {"every": 20, "keep": 1, **SILENT}
    callbacks = get_callback_list({"callback": [{"sb3_ext.callbacks.Checkpoints": options}]})
    model = DQN("MlpPolicy", gym.make("CartPole-v1"), learning_starts=10, buffer_size=100, device="cpu")
    evaluation = make_eval(tmp_path, gym.make("CartPole-v1"), eval_freq=50, warn=False)
    model.learn(60, callback=[*callbacks, evaluation])
    assert [checkpoint.name for checkpoint in find_checkpoints(tmp_path)] == [step_name(60), LAST, BEST]
    assert "eval/mean_reward" in Checkpoint(tmp_path, BEST).read_record()["metrics"]


def test_without_a_folder_it_says_what_it_needs():
    with pytest.raises(ValueError, match="doesn't know where to save: pass folder="):
        make_model().learn(64, callback=Checkpoints())


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        (None, None),
        (False, None),
        (True, CheckpointsOptions()),
        ({}, CheckpointsOptions()),
        ({"every": "1e5", "keep": None}, CheckpointsOptions(every=100_000, keep=None)),
        ({"video": False, "wait": 0}, CheckpointsOptions(video=False, wait=0)),
    ],
)
def test_a_config_is_read(written, expected):
    assert read_switch(CheckpointsOptions, written, "checkpoints") == expected


@pytest.mark.parametrize(
    ("written", "error", "message"),
    [
        ({"evry": 5}, TypeError, "did you mean 'every'"),
        ({"every": 0}, ValueError, "every=0 must be at least 1"),
        ({"keep": 1.5}, ValueError, "keep=1.5 must be a whole number"),
        ({"table": "yes"}, ValueError, "table='yes' must be true or false"),
        ({"best": None}, ValueError, "best=None must be true or false"),
        ("often", ValueError, "'often' must be true, false or a mapping"),
    ],
)
def test_what_is_wrong_in_a_config_is_said(written, error, message):
    with pytest.raises(error, match=message):
        read_switch(CheckpointsOptions, written, "checkpoints")
