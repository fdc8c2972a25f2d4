"""An agent as it was at one step of its training: what is evaluated, and what becomes the best model, is one file."""

from __future__ import annotations

import os
import pickle
import shutil
import tempfile
import warnings
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import IO, Any

import torch as th
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.vec_env import VecEnv, VecNormalize, unwrap_vec_normalize

from sb3_ext.runs.agents.statistics import save_statistics, statistics_path
from sb3_ext.runs.files import replacing
from sb3_ext.runs.play.scoring import Scores

try:
    import fcntl
except ImportError:  # Windows, where a killed training leaves its snapshots
    fcntl = None  # type: ignore[assignment]

__all__ = ["ScoreAgent", "Snapshot", "SnapshotFolder"]

#: Plays an agent in environments
ScoreAgent = Callable[[BaseAlgorithm, VecEnv], Scores]

_PREFIX, _LOCK = ".evaluation-", "lock"
#: Neighbours that are looked at for what was left
_MANY = 1000
#: What an agent that only plays does without: memory for training, and a seed, with which ``load`` would start all
#: random numbers anew
_NOT_FOR_PLAYING: dict[str, Any] = {
    "buffer_size": 1,
    "replay_buffer_class": None,
    "replay_buffer_kwargs": {},
    "seed": None,
    "tensorboard_log": None,
    "verbose": 0,
}


@dataclass(frozen=True)
class Snapshot:
    """
    Made with :meth:`take`; can be sent to another process.

    :param step: timesteps that the agent was trained for
    :param model: the file of the model; that of its normalisation statistics is beside it
    :param stage: of a curriculum, where evaluation follows it
    """

    step: int
    model: Path
    stage: int | None = None

    @classmethod
    def take(cls, model: BaseAlgorithm, folder: Path, stage: int | None = None) -> Snapshot:
        """
        :param model: the agent as it is now; nobody else may change it meanwhile
        :param folder: where to put the files
        :param stage: of a curriculum
        """
        path = folder / f"{model.num_timesteps}.zip"
        model.save(path)
        save_statistics(model, path)
        return cls(model.num_timesteps, path, stage)

    def score(self, algorithm: type[BaseAlgorithm], env: VecEnv, score_agent: ScoreAgent) -> Scores:
        """
        Play the agent.

        :param algorithm: its class
        :param env: environments; they get the statistics that the agent had
        :param score_agent: plays it
        """
        with warnings.catch_warnings(), th.random.fork_rng(devices=[]):
            # Training has said it all already; and making networks takes random numbers
            warnings.simplefilter("ignore")
            agent = algorithm.load(self.model, device="cpu", custom_objects=_NOT_FOR_PLAYING)
        self._prepare(env)
        return score_agent(agent, env)

    def _prepare(self, env: VecEnv) -> None:
        if self.stage is not None:
            env.env_method("set_stage", self.stage)
        statistics = statistics_path(self.model)
        if not statistics.is_file():
            return
        there = unwrap_vec_normalize(env)
        if there is None:
            raise ValueError(
                "The training environments are in a VecNormalize, and those for evaluation are not: wrap both."
            )
        with statistics.open("rb") as file:
            saved: VecNormalize = pickle.load(file)
        if hasattr(saved, "obs_rms"):
            there.obs_rms = saved.obs_rms
        there.ret_rms = saved.ret_rms
        there.training = there.norm_reward = False

    def keep_as(self, path: Path) -> None:
        """
        Replace a model in one step, and its statistics. The snapshot can't be played any more then.

        :param path: file of the model
        """
        self.keep_statistics_for(path)
        os.replace(self.model, path)

    def keep_statistics_for(self, path: Path) -> None:
        """
        Replace the statistics of a model in one step.

        :param path: file of the model
        """
        statistics = statistics_path(self.model)
        if statistics.is_file():
            with replacing(statistics_path(path)) as unfinished:
                shutil.copyfile(statistics, unfinished)

    def discard(self) -> None:
        """Delete its files, unless they are kept."""
        self.model.unlink(missing_ok=True)
        statistics_path(self.model).unlink(missing_ok=True)


class SnapshotFolder:
    """
    A hidden folder for snapshots, deleted when it is closed, or with the object. One that a killed training left is
    deleted by the next training in the same run folder, or in one next to it.

    :param beside: folder of the models that a snapshot may become; ``None`` for the system's temporary folder
    """

    def __init__(self, beside: str | None) -> None:
        if beside is not None:
            _delete_left_behind(Path(beside))
        self.path, lock = _make_locked(beside)
        #: Deletes it
        self.close = weakref.finalize(self, _delete, os.getpid(), self.path, lock)

    def take(self, model: BaseAlgorithm, stage: int | None = None) -> Snapshot:
        """
        :param model: the agent as it is now
        :param stage: of a curriculum
        """
        return Snapshot.take(model, self.path, stage)


def _make_locked(beside: str | None) -> tuple[Path, IO[bytes]]:
    """A lock ends with the process, also in another container, where its number would say nothing."""
    while True:
        path = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=beside))
        lock = (path / _LOCK).open("wb")
        if fcntl is not None:
            fcntl.flock(lock, fcntl.LOCK_EX)
        if path.is_dir():
            return path, lock
        lock.close()  # another training took it for one that was left, just before it was locked


def _delete_left_behind(beside: Path) -> None:
    if fcntl is None:
        return
    for folder in islice((beside, *beside.resolve().parent.glob("*")), _MANY):
        for lock_file in folder.glob(f"{_PREFIX}*/{_LOCK}"):
            try:
                with lock_file.open("rb") as lock:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(lock_file.parent, ignore_errors=True)
            except OSError:
                continue  # in use, or of another user


def _delete(owner: int, folder: Path, lock: IO[bytes]) -> None:
    if os.getpid() == owner:  # and not a fork of it that has ended
        shutil.rmtree(folder, ignore_errors=True)
        lock.close()
