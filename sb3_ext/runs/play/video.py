"""Plays an episode of a checkpoint, and records its table and its video."""

from __future__ import annotations

import inspect
import pickle
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv, VecEnv

from sb3_ext.common.model_file import read_model_file
from sb3_ext.runs.agents.checkpoint import Checkpoint
from sb3_ext.runs.agents.load import enter_stage, load_agent
from sb3_ext.runs.files import atomic_write
from sb3_ext.runs.play.episode_table import EpisodeTable, play_episode
from sb3_ext.runs.play.frames import CantRender, filmed
from sb3_ext.wrappers.base import wrappers_of
from sb3_ext.wrappers.training_link import link_to_training

__all__ = ["Recorded", "Recording", "record"]

#: A training may replace model and statistics while they are loaded
_ATTEMPTS = 6


@dataclass(frozen=True)
class Recording:
    """
    A job: play an episode with a saved model and record it.

    :param step: timesteps of the model; when another model has the name by now, nothing is recorded
    :param make_env: makes a ``gym.Env`` or a ``VecEnv``, pickled by cloudpickle; may take a ``render_mode``
    :param max_steps: longer episodes are cut off
    """

    checkpoint: Checkpoint
    step: int
    algorithm: type[BaseAlgorithm]
    make_env: bytes
    table: bool = True
    video: bool = True
    deterministic: bool = True
    seed: int = 0
    max_steps: int = 10_000


class Recorded(NamedTuple):
    """The files, the raw reward of the episode, and why there is no video although one was wanted."""

    table: Path | None = None
    video: Path | None = None
    score: float | None = None
    no_video: str | None = None


def record(job: Recording) -> Recorded:
    """Run a job. If the environment can't be rendered, there is a table without a video."""
    try:
        episode = video = reason = None
        if job.video:
            video = job.checkpoint.video(job.step)
            try:
                with atomic_write(video) as unfinished:
                    episode = _play(job, unfinished)
            except CantRender as error:
                video, reason = None, str(error)
        if episode is None and job.table:
            episode = _play(job, None)
        if episode is None:
            return Recorded(no_video=reason)
        if not job.table:
            return Recorded(None, video, episode.score)
        if _is_superseded(job):
            return Recorded()
        episode.to_csv(job.checkpoint.table)
        return Recorded(job.checkpoint.table, video, episode.score, reason)
    # A file that is replaced while it is read can fail in any way
    except Exception:
        if _is_superseded(job):
            return Recorded()
        raise


def _is_superseded(job: Recording) -> bool:
    try:
        return read_model_file(job.checkpoint.model).num_timesteps != job.step
    except (OSError, ValueError):
        return True  # removed, or being replaced right now


def _play(job: Recording, video: Path | None) -> EpisodeTable:
    env = _make_env(job, None if video is None else "rgb_array")
    try:
        # The table shows rewards as the algorithm saw them
        model, played_env = load_agent(job.checkpoint.model, env, job.algorithm, norm_reward=True, attempts=_ATTEMPTS)
        if model.num_timesteps != job.step:
            raise ValueError("Another model has the name now.")
        link_to_training(env, getattr(model, "gamma", None))
        enter_stage(env, model)
        with nullcontext() if video is None else filmed(env, video):
            return play_episode(
                model, played_env, deterministic=job.deterministic, seed=job.seed, max_steps=job.max_steps
            )
    finally:
        env.close()


def _make_env(job: Recording, render_mode: str | None) -> VecEnv:
    make_env = pickle.loads(job.make_env)
    parameters = inspect.signature(make_env).parameters
    takes_anything = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
    takes_mode = "render_mode" in parameters or (takes_anything and render_mode is not None)
    try:
        env = make_env(render_mode=render_mode) if takes_mode else make_env()
    # Environments raise anything when they can't be rendered
    except Exception as error:
        if render_mode is None or not takes_mode:
            raise
        raise CantRender(f"{type(error).__name__}: {error}") from error
    if isinstance(env, VecEnv):
        return env
    has_monitor = any(isinstance(layer, Monitor) for layer in wrappers_of(env))
    return DummyVecEnv([lambda: env if has_monitor else Monitor(env)])
