"""Files of checkpoints: complete or not there, together with what belongs to them, and found again."""

import json
import math
import os
import signal

import numpy as np
import pytest
from drifting_env import make_normalized, make_vec_env
from rl_zoo3.utils import get_model_path
from stable_baselines3 import PPO

from sb3_ext.runs.agents.checkpoint import (
    BEST,
    LAST,
    Checkpoint,
    Metric,
    best_video,
    copy_checkpoint,
    find_checkpoints,
    find_videos,
    prune,
    prune_videos,
    save_checkpoint,
    save_model,
    step_name,
)
from sb3_ext.runs.agents.statistics import load_statistics
from sb3_ext.runs.files import remove_unfinished

TINY = {"n_steps": 16, "batch_size": 16, "n_epochs": 1, "policy_kwargs": {"net_arch": [4]}, "seed": 0, "device": "cpu"}


class DiesWhileSaving(PPO):
    """Is killed when half of the file is written."""

    def save(self, path, *args, **kwargs):
        super().save(path, *args, **kwargs)
        os.truncate(path, os.path.getsize(path) // 2)
        os.kill(os.getpid(), signal.SIGKILL)


@pytest.fixture
def model():
    return PPO("MlpPolicy", make_normalized(0.1), **TINY).learn(16)


def in_a_process(function, *args):
    """:return: the signal that ended the process"""
    pid = os.fork()
    if pid == 0:
        try:
            function(*args)
        finally:
            os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def test_a_run_that_is_killed_while_it_saves_leaves_the_former_model(tmp_path, model):
    save_model(model, tmp_path / BEST)
    dying = DiesWhileSaving("MlpPolicy", make_vec_env(), **TINY)
    assert in_a_process(save_model, dying, tmp_path / BEST) == -signal.SIGKILL
    assert in_a_process(save_model, dying, tmp_path / LAST) == -signal.SIGKILL
    assert [checkpoint.name for checkpoint in find_checkpoints(tmp_path)] == [BEST]
    assert PPO.load(tmp_path / BEST, device="cpu").num_timesteps == 16
    remove_unfinished(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [f"{BEST}.zip"]


def test_a_checkpoint_has_model_statistics_and_metrics(tmp_path, model):
    checkpoint = Checkpoint(tmp_path, step_name(16))
    metrics = {"train/loss": Metric(0.5, 16), "rollout/ep_rew_mean": Metric(math.nan, 10)}
    save_checkpoint(model, checkpoint, metrics)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "checkpoints",
        "rl_model_16_steps.zip",
        "rl_model_vecnormalize_16_steps.pkl",
    ]
    loaded = PPO.load(checkpoint.model, device="cpu")
    statistics = load_statistics(checkpoint.model, make_vec_env())
    np.testing.assert_array_equal(statistics.obs_rms.mean, model.get_vec_normalize_env().obs_rms.mean)
    assert loaded.num_timesteps == checkpoint.step == 16
    record = json.loads(checkpoint.record.read_text())
    assert record["metrics"] == {"train/loss": 0.5, "rollout/ep_rew_mean": None}
    assert record["metric_steps"] == {"train/loss": 16, "rollout/ep_rew_mean": 10}
    assert (record["kind"], record["step"], record["algorithm"]) == ("step", 16, "PPO")
    assert record["statistics"] == "rl_model_vecnormalize_16_steps.pkl"


def test_the_last_one_stays_when_the_checkpoint_it_came_from_is_removed(tmp_path, model):
    checkpoint, last = Checkpoint(tmp_path, step_name(16)), Checkpoint(tmp_path, LAST)
    save_checkpoint(model, checkpoint, {})
    for _ in range(2):
        copy_checkpoint(checkpoint, last, {}, "PPO")
    assert [removed.name for removed in prune(tmp_path, 0)] == [checkpoint.name]
    assert find_checkpoints(tmp_path) == [last]
    assert PPO.load(last.model, device="cpu").num_timesteps == 16 and last.step == 16
    load_statistics(last.model, make_vec_env())
    assert last.read_record()["kind"] == "last"


def test_the_latest_checkpoints_are_kept_and_nothing_of_others_is_touched(tmp_path, model):
    save_model(model, tmp_path / step_name(1))  # somebody else's
    for number, step in enumerate([30, 40, 10, 20]):  # it began again after 40 steps
        model.num_timesteps = step
        checkpoint = Checkpoint(tmp_path, step_name(step))
        save_checkpoint(model, checkpoint, {})
        os.utime(checkpoint.model, (number, number))
        checkpoint.table.touch()
        checkpoint.video(step).parent.mkdir(exist_ok=True)
        checkpoint.video(step).touch()
    prune(tmp_path, 2)
    assert [checkpoint.step for checkpoint in find_checkpoints(tmp_path)] == [1, 10, 20]
    assert len(list(tmp_path.glob("*.pkl"))) == 2
    assert len(list(tmp_path.glob("checkpoints/*"))) == 4
    assert len(list(tmp_path.glob("videos/*"))) == 2


def test_rl_zoo_finds_the_checkpoints(tmp_path, model):
    folder = tmp_path / "ppo" / "Drifting-v0_1"
    for step in (8, 16):
        model.num_timesteps = step
        save_checkpoint(model, Checkpoint(folder, step_name(step)), {})
    save_checkpoint(model, Checkpoint(folder, BEST), {})
    arguments = (1, str(tmp_path), "ppo", "Drifting-v0")
    assert get_model_path(*arguments, load_last_checkpoint=True)[1] == str(folder / "rl_model_16_steps.zip")
    assert get_model_path(*arguments, load_checkpoint=8)[1] == str(folder / "rl_model_8_steps.zip")
    assert get_model_path(*arguments, load_best=True)[1] == str(folder / "best_model.zip")


def test_videos_are_found_by_kind_and_step(tmp_path, model):
    folder = tmp_path / "videos"
    folder.mkdir()
    assert best_video(tmp_path) is None and find_videos(tmp_path) == []
    for number, name in enumerate(
        ["best-model-ppo-CartPole-v1-step-0-to-step-1000.mp4", "last-step-9.mp4", ".unfinished-1-best-step-8.mp4"]
    ):
        (folder / name).touch()
        os.utime(folder / name, (number, number))
    assert best_video(tmp_path) == folder / "best-model-ppo-CartPole-v1-step-0-to-step-1000.mp4"
    for number, name in enumerate(["best-step-100.mp4", "best-step-20.mp4", "checkpoint-step-50.mp4"]):
        (folder / name).touch()
        os.utime(folder / name, (number, number))
    assert [(video.kind, video.step) for video in find_videos(tmp_path)] == [
        ("best-model-ppo-CartPole-v1", 0),
        ("last", 9),
        ("best", 20),
        ("checkpoint", 50),
        ("best", 100),
    ]
    assert best_video(tmp_path) == folder / "best-step-20.mp4"  # the newest
    best = Checkpoint(tmp_path, BEST)
    save_checkpoint(model, best, {})
    best.video(16).touch()
    os.utime(best.video(16), (0, 0))
    assert best_video(tmp_path) == best.video(16)  # that of the model itself
    prune_videos(tmp_path, "best", 1)
    assert [video.step for video in find_videos(tmp_path) if video.kind == "best"] == [20]
