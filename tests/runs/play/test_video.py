"""Videos and tables of saved models, and how they are found."""

import os
from dataclasses import replace
from functools import partial

import cloudpickle
import gymnasium as gym
import imageio_ffmpeg
import numpy as np
import pytest
from drifting_env import DriftingEnv, make_normalized, make_vec_env
from level_env import LEVEL_ENV, LevelEnv
from stable_baselines3 import DQN, PPO

from sb3_ext.common.model_file import callback_state
from sb3_ext.runs.agents.checkpoint import (
    BEST,
    Checkpoint,
    save_checkpoint,
    step_name,
)
from sb3_ext.runs.agents.statistics import load_statistics
from sb3_ext.runs.play.episode_table import EpisodeTable, play_episode
from sb3_ext.runs.play.video import Recording, record
from sb3_ext.wrappers.curriculum.options import read_curriculum

TINY = {"policy_kwargs": {"net_arch": [4]}, "seed": 0, "device": "cpu"}
PPO_SETTINGS = {**TINY, "n_steps": 16, "batch_size": 16, "n_epochs": 1}


def make_cartpole(render_mode=None):
    return gym.make("CartPole-v1", render_mode=render_mode, max_episode_steps=20)


def saved(folder, name=BEST, algorithm=PPO, env=None, **settings):
    model = algorithm("MlpPolicy", env or make_cartpole(), **(settings or PPO_SETTINGS)).learn(16)
    checkpoint = Checkpoint(folder, name)
    save_checkpoint(model, checkpoint, {})
    return model, checkpoint


def recording(checkpoint, make_env=make_cartpole, algorithm=PPO, **options):
    return Recording(checkpoint, 16, algorithm, cloudpickle.dumps(make_env), **options)


def frames_of(video):
    return imageio_ffmpeg.count_frames_and_secs(str(video))[0]


def test_a_video_has_a_picture_of_each_step_and_goes_with_the_table(tmp_path):
    model, checkpoint = saved(tmp_path)
    recorded = record(recording(checkpoint, seed=7))
    assert recorded.video == tmp_path / "videos" / "best-step-16.mp4"
    assert recorded.table == tmp_path / "checkpoints" / "best_model.csv"
    table = EpisodeTable.from_csv(recorded.table)
    assert frames_of(recorded.video) == len(table) + 1
    assert recorded.score == table.score == len(table)
    again = play_episode(model, make_cartpole(), seed=7)
    np.testing.assert_allclose(table["obs_2"], again["obs_2"], rtol=1e-5)
    assert len(os.listdir(tmp_path / "videos")) == len(os.listdir(tmp_path)) - 2 == 1


def test_a_replay_buffer_is_not_made_again(tmp_path):
    _, checkpoint = saved(tmp_path, step_name(16), DQN, buffer_size=1000, learning_starts=5, **TINY)
    recorded = record(recording(checkpoint, algorithm=DQN))
    assert recorded.video == tmp_path / "videos" / "checkpoint-step-16.mp4"
    assert "q_0" in EpisodeTable.from_csv(recorded.table).columns


@pytest.mark.parametrize("is_normalized", [True, False])
def test_the_agent_sees_what_it_saw_when_it_was_saved(tmp_path, is_normalized):
    model, checkpoint = saved(tmp_path, env=make_normalized(0.1))
    model.get_vec_normalize_env().obs_rms.mean += 100.0  # training goes on
    make_env = make_normalized if is_normalized else DriftingEnv
    recorded = record(recording(checkpoint, make_env, video=False))
    table = EpisodeTable.from_csv(recorded.table)
    expected = play_episode(model, load_statistics(checkpoint.model, make_vec_env()))
    np.testing.assert_allclose(table["action_0"], expected["action_0"], rtol=1e-5)
    np.testing.assert_allclose(table["mean_0"], expected["mean_0"], rtol=1e-5)
    # Rewards as the algorithm saw them
    assert not np.allclose(table["seen_reward"], table["reward"])


@pytest.mark.parametrize(("eval_stage", "level"), [("current", 2), ("last", 3)])
def test_the_stage_of_a_curriculum_is_that_of_evaluation(tmp_path, eval_stage, level):
    stages = [{"env_kwargs": {"level": number}, "next": {"steps": 100}} for number in (1, 2)]
    written = {"eval_stage": eval_stage, "stages": [*stages, {"env_kwargs": {"level": 3}}]}
    model, checkpoint = saved(tmp_path, env=LevelEnv())
    callback_state(model)["curriculum"] = {"stage": 1}
    save_checkpoint(model, checkpoint, {})
    make_env = partial(make_with_curriculum, written)
    assert record(recording(checkpoint, make_env, video=False)).score == 4 * level


def make_with_curriculum(written):
    return read_curriculum(written).wrap(gym.make(LEVEL_ENV), evaluation=True)


def test_an_environment_that_cant_be_rendered_gets_its_table(tmp_path):
    _, checkpoint = saved(tmp_path, env=DriftingEnv())
    recorded = record(recording(checkpoint, DriftingEnv))
    assert recorded.video is None and recorded.table is not None
    assert "render mode is None" in recorded.no_video
    assert not list((tmp_path / "videos").iterdir())


def test_a_renderer_that_breaks_leaves_no_half_of_a_video(tmp_path):
    class Breaks(gym.Wrapper):
        count = 0

        def render(self):
            self.count += 1
            if self.count > 5:
                raise RuntimeError("no more paint")
            return self.env.render()

    _, checkpoint = saved(tmp_path)
    recorded = record(recording(checkpoint, lambda render_mode: Breaks(make_cartpole(render_mode))))
    assert recorded.no_video == "RuntimeError: no more paint"
    assert recorded.table is not None
    assert not list((tmp_path / "videos").iterdir())


@pytest.mark.parametrize(
    ("sizes", "said"),
    [
        ([(8, 8)], "render() returned (8, 8); expected a picture of height x width x 3."),
        ([(8, 8, 4)], "render() returned (8, 8, 4); expected a picture of height x width x 3."),
        ([(32, 32, 3), (32, 48, 3)], "render() returned pictures of (32, 32, 3) and (32, 48, 3)."),
    ],
)
def test_what_is_no_picture_is_said(tmp_path, sizes, said):
    class Draws(gym.Wrapper):
        count = 0

        def render(self):
            self.count += 1
            return np.zeros(sizes[self.count % len(sizes) - 1], np.uint8)

    _, checkpoint = saved(tmp_path)
    recorded = record(recording(checkpoint, lambda render_mode: Draws(make_cartpole(render_mode))))
    assert recorded.no_video == said


def test_an_environment_of_another_kind_is_an_error(tmp_path):
    _, checkpoint = saved(tmp_path)
    with pytest.raises(ValueError, match="spaces do not match"):
        record(recording(checkpoint, DriftingEnv, video=False))


@pytest.mark.parametrize("happened", ["replaced", "removed"])
def test_a_model_that_is_not_there_any_more_is_not_recorded(tmp_path, happened):
    _, checkpoint = saved(tmp_path)
    if happened == "removed":
        checkpoint.model.unlink()
    job = recording(checkpoint)
    assert record(job if happened == "removed" else replace(job, step=15)) == (None, None, None, None)
    assert not list(tmp_path.glob("videos/*")) and not checkpoint.table.exists()
