"""SB3's ``Monitor`` writes a line for each episode, in the process of its environment. A full disk must not end it."""

import csv
import os
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import gymnasium as gym
from stable_baselines3.common.monitor import ResultsWriter
from stable_baselines3.common.vec_env import VecEnv

from sb3_ext.common.full_disk import WholeLines

__all__ = ["monitor_writers", "tolerant_monitors", "write_whole_lines"]


def write_whole_lines(writer: ResultsWriter) -> ResultsWriter:
    """Let a writer leave out what does not fit on the disk. The training's own log files announce it."""
    file, fields = writer.file_handler, writer.logger.fieldnames
    file.close()
    writer.file_handler = WholeLines(file.name, is_silent=True)
    writer.logger = csv.DictWriter(writer.file_handler, fieldnames=fields)
    return writer


def monitor_writers(
    n_envs: int, env_id: str | None, t_start: float, monitor_dir: str | None, start_index: int, override_existing: bool
) -> list[ResultsWriter]:
    """
    For vectorised environments that have no single ones for ``Monitor``.

    :param monitor_dir: folder for a file of each environment; without one, there are no writers
    :param start_index: number of the first environment in the names of these files
    :param override_existing: overwrite these files, or append to them
    """
    if monitor_dir is None:
        return []
    header: dict[str, float | str] = {"t_start": t_start, "env_id": str(env_id)}
    paths = [os.path.join(monitor_dir, str(start_index + index)) for index in range(n_envs)]
    writers = (ResultsWriter(path, header, override_existing=override_existing) for path in paths)
    return [write_whole_lines(writer) for writer in writers]


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
