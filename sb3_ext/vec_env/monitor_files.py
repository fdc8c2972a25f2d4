"""SB3's ``Monitor`` writes a line for each episode, in the process of its environment. A full disk must not end it."""

import csv
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import gymnasium as gym
from stable_baselines3.common.monitor import ResultsWriter
from stable_baselines3.common.vec_env import VecEnv

from sb3_ext.common.full_disk import WholeLines

__all__ = ["tolerant_monitors", "write_whole_lines"]


def write_whole_lines(writer: ResultsWriter) -> ResultsWriter:
    """Let a writer leave out what does not fit on the disk. The training's own log files announce it."""
    file, fields = writer.file_handler, writer.logger.fieldnames
    file.close()
    writer.file_handler = WholeLines(file.name, is_silent=True)
    writer.logger = csv.DictWriter(writer.file_handler, fieldnames=fields)
    return writer


def tolerant_monitors(make_vec_env: Callable[..., VecEnv]) -> Callable[..., VecEnv]:
    """Makes vectorised environments whose ``Monitor`` files are written so."""

    def make(env_fns: Sequence[Callable[[], gym.Env]], **kwargs: Any) -> VecEnv:
        return make_vec_env([partial(_make, env_fn) for env_fn in env_fns], **kwargs)

    return make


def _make(env_fn: Callable[[], gym.Env]) -> gym.Env:
    env = env_fn()
    if env.has_wrapper_attr("results_writer") and (writer := env.get_wrapper_attr("results_writer")) is not None:
        write_whole_lines(writer)
    return env
