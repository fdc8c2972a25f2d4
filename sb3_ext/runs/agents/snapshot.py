"""Snapshots of an agent in training, for evaluations that run while training continues."""

import os
import shutil
import tempfile
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import IO

from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.vec_env import VecEnv

from sb3_ext.runs.agents.load import load_agent
from sb3_ext.runs.agents.statistics import save_statistics, statistics_path
from sb3_ext.runs.play.scoring import Scores

try:
    import fcntl
except ImportError:  # Windows, where a killed training leaves its snapshots
    fcntl = None  # type: ignore[assignment]

__all__ = ["AgentSnapshot", "PackedSnapshot", "ScoreAgent", "SnapshotFolder"]

#: Plays an agent in environments
ScoreAgent = Callable[[BaseAlgorithm, VecEnv], Scores]

#: Step, stage, and the content of the files of model and statistics
PackedSnapshot = tuple[int, int | None, bytes, bytes | None]

_PREFIX, _LOCK = ".evaluation-", "lock"
#: How many neighbouring folders are searched
_MANY = 1000


@dataclass(frozen=True)
class AgentSnapshot:
    """
    An agent as it was at one step of training. The file that is evaluated is the one kept as the best model. Can be
    sent to another process.

    :param stage: stage of the curriculum, where evaluation follows it
    """

    step: int
    model: Path
    stage: int | None = None

    def score(self, algorithm: type[BaseAlgorithm], env: VecEnv, score_agent: ScoreAgent) -> Scores:
        """Play the agent with the statistics it was saved with."""
        agent, env = load_agent(self.model, env, algorithm)
        if self.stage is not None:
            env.env_method("set_stage", self.stage)
        return score_agent(agent, env)

    def keep_as(self, path: Path) -> None:
        """Move the snapshot to ``path``, where it replaces the model and its statistics."""
        statistics = statistics_path(self.model)
        if statistics.is_file():
            os.replace(statistics, statistics_path(path))
        os.replace(self.model, path)

    def pack(self) -> PackedSnapshot:
        statistics = statistics_path(self.model)
        return self.step, self.stage, self.model.read_bytes(), statistics.read_bytes() if statistics.is_file() else None

    def discard(self) -> None:
        """Delete the files, unless they were kept."""
        self.model.unlink(missing_ok=True)
        statistics_path(self.model).unlink(missing_ok=True)


class SnapshotFolder:
    """
    A hidden folder for snapshots. It is deleted with this object; one that a killed training left behind is deleted by
    the next training in the same run folder, or in a neighbouring one.

    :param beside: folder of the models that a snapshot may become; ``None`` for the system's temporary folder
    """

    def __init__(self, beside: str | None) -> None:
        if beside is not None:
            _delete_left_behind(Path(beside))
        self.path, lock = _make_locked(beside)
        #: Deletes the folder
        self.close = weakref.finalize(self, _delete, os.getpid(), self.path, lock)

    def take(self, model: BaseAlgorithm, stage: int | None = None) -> AgentSnapshot:
        """Save the agent as it is now."""
        path = self.path / f"{model.num_timesteps}.zip"
        model.save(path)
        save_statistics(model, path)
        return AgentSnapshot(model.num_timesteps, path, stage)

    def unpack(self, packed: PackedSnapshot) -> AgentSnapshot:
        step, stage, model, statistics = packed
        path = self.path / f"{step}.zip"
        path.write_bytes(model)
        if statistics is not None:
            statistics_path(path).write_bytes(statistics)
        return AgentSnapshot(step, path, stage)


def _make_locked(beside: str | None) -> tuple[Path, IO[bytes]]:
    """A lock ends with its process, also in another container, where a process id would mean nothing."""
    while True:
        path = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=beside))
        lock = (path / _LOCK).open("wb")
        if fcntl is not None:
            fcntl.flock(lock, fcntl.LOCK_EX)
        if path.is_dir():
            return path, lock
        lock.close()  # another training took it for one left behind, just before it was locked


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
    if os.getpid() == owner:  # not a fork that has ended
        shutil.rmtree(folder, ignore_errors=True)
        lock.close()
