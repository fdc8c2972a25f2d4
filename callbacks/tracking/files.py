"""Files of a run on Weights & Biases: videos, times of checkpoints, the best model, and the run folder as a zip."""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
import time
import warnings
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlparse

from sb3_ext.callbacks.tracking.writer import WandbWriter
from sb3_ext.runs.checkpoint import BEST, Checkpoint, find_checkpoints, steps_of_model
from sb3_ext.runs.normalization import matching_statistics

if TYPE_CHECKING:
    from wandb import Run

__all__ = ["RUN_FILE", "RunFiles", "ZippedRun", "download_run", "unpack_run", "zip_run"]

#: In a run folder: where the run is on W&B
RUN_FILE = "tracking.json"
_ZIP = "run.zip"
_ZIP_TYPE = "run-folder"
_LEFT_OUT = "left_out.txt"
#: Names under which it is logged when a model was saved, by the kind of checkpoint
_SAVED = {"step": "time/checkpoint", "best": "time/best_model", "last": "time/last_model"}
#: ``<name>-step-<timesteps>``, and what may come after it
_VIDEO = re.compile(r"(?P<name>.+?)-step-(?P<step>\d+)")
#: Seconds between two uploads of a best model, which may be found every few seconds at first
_UPLOAD_EVERY = 600.0


class RunFiles:
    """
    Looks at a run folder for what is new in it.

    :param folder: the run folder
    :param run: an open run
    :param writer: writes to it
    :param started: when the training began, as ``time.time()`` says it
    """

    def __init__(self, folder: Path, run: Run, writer: WandbWriter, started: float) -> None:
        self.folder = folder
        self._run = run
        self._writer = writer
        self._started = started
        self._best = Checkpoint(folder, BEST)
        self._seen = {path: _changed_at(path) for path in (*self._videos(), *self._models())}
        self._uploaded_best = self._seen.get(self._best.model)
        self._uploaded_at = 0.0

    def log_videos(self, timesteps: int) -> None:
        """
        Log new videos, each at the timesteps that its name has.

        :param timesteps: of now, for a video whose name has none
        """
        import wandb

        for path in self._new(self._videos()):
            if not _is_complete(path):
                del self._seen[path]
                continue
            named = _VIDEO.match(path.stem)
            name, step = (named["name"], int(named["step"])) if named else (path.stem, timesteps)
            self._writer.log(step, {f"video/{name}": wandb.Video(str(path), format="mp4")})

    def log_checkpoint_times(self) -> None:
        """Log when new checkpoints and best models were saved: seconds of training, at the timesteps of the model."""
        models = self._models()
        for path in self._new(models):
            step = _steps_of(path)
            if step is not None:
                self._writer.log(step, {_SAVED[models[path]]: path.stat().st_mtime - self._started})

    def upload_best_model(self, at_once: bool = False) -> None:
        """
        Upload a new best model with its normalisation statistics and its config, as an artifact.

        :param at_once: otherwise not more often than every ten minutes
        """
        best = self._best.model
        now = time.monotonic()
        if not best.is_file() or _changed_at(best) == self._uploaded_best:
            return
        if not at_once and self._uploaded_at and now - self._uploaded_at < _UPLOAD_EVERY:
            return
        step = _steps_of(best)
        if step is None:
            return
        files = [best, *self.folder.glob("*/config.yml"), *self.folder.glob("*/args.yml")]
        try:
            files.append(matching_statistics(best))
        except FileNotFoundError:
            # Not normalised, or by RL Zoo, which keeps one file for all
            files += self.folder.glob("*/vecnormalize.pkl")
        except ValueError:
            return  # the model is there and its statistics are not yet
        self._uploaded_best, self._uploaded_at = _changed_at(best), now
        metadata: dict[str, Any] = {"timesteps": step}
        if self._best.record.is_file():
            files.append(self._best.record)
            metadata["metrics"] = self._best.read_record()["metrics"]
        self._log_artifact("model", "model", files, ["best", "latest"], metadata)

    def upload_folder(self, max_mb: float) -> tuple[str, ...]:
        """
        Upload the run folder as a zip.

        :param max_mb: how large it may be
        :return: files that were left out for their size
        """
        with tempfile.TemporaryDirectory() as temporary:
            zipped = zip_run(self.folder, Path(temporary) / _ZIP, max_mb)
            metadata = {"folder": self.folder.name, "left_out": list(zipped.left_out)}
            self._log_artifact("run", _ZIP_TYPE, [zipped.path], ["latest"], metadata)
        return zipped.left_out

    def _log_artifact(
        self, name: str, kind: str, files: list[Path], aliases: list[str], metadata: dict[str, Any]
    ) -> None:
        import wandb

        artifact = wandb.Artifact(f"{name}-{self._run.id}", type=kind, metadata=metadata)
        for path in files:
            # A copy is made: the file may change or go before it was sent
            artifact.add_file(str(path), name=path.name)
        self._run.log_artifact(artifact, aliases=aliases)

    def _videos(self) -> list[Path]:
        return [path for path in self.folder.glob("videos/*.mp4") if not path.name.startswith(".")]

    def _models(self) -> dict[Path, str]:
        """Saved models, and what kind of checkpoint each is."""
        return {checkpoint.model: checkpoint.kind for checkpoint in find_checkpoints(self.folder)}

    def _new(self, paths: Iterable[Path]) -> list[Path]:
        """Those that are new or were written again, in their order in time."""
        new = []
        for path in paths:
            changed_at = _changed_at(path)
            if changed_at is not None and self._seen.get(path) != changed_at:
                self._seen[path] = changed_at
                new.append((changed_at, path))
        return [path for _, path in sorted(new)]


@dataclass(frozen=True)
class ZippedRun:
    """
    :param path: the zip
    :param left_out: files that are not in it, with their sizes; the zip has them in ``left_out.txt``
    """

    path: Path
    left_out: tuple[str, ...]


def zip_run(folder: Path, target: Path, max_mb: float) -> ZippedRun:
    """
    :param folder: a run folder
    :param target: the zip to write
    :param max_mb: megabytes that may go in, before compression; the largest files stay out first
    """
    files = [path for path in folder.rglob("*") if path.is_file() and path != target]
    files = [path for path in files if not any(part.startswith(".") for part in path.relative_to(folder).parts)]
    files = [path for path in files if path.relative_to(folder).parts[0] != "wandb"]
    left_out = []
    room = int(max_mb * 1e6)
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for size, path in sorted((path.stat().st_size, path) for path in files):
            name = path.relative_to(folder).as_posix()
            if size > room:
                left_out.append(f"{name} ({size / 1e6:.1f} MB)")
                continue
            room -= size
            archive.write(path, name)
        if left_out:
            archive.writestr(_LEFT_OUT, "\n".join(left_out) + "\n")
    return ZippedRun(target, tuple(left_out))


def download_run(run: str, log_folder: str | os.PathLike[str] = "logs", api: Any = None) -> Path:
    """
    Get a run folder that was uploaded, for ``enjoy`` and the like. One that is here already is not loaded again.

    :param run: ``entity/project/run id``, or the address of its page
    :param log_folder: RL Zoo's log folder
    :param api: by default ``wandb.Api()``
    :return: the run folder
    :raises ValueError: when this is not a run
    """
    path = [part for part in urlparse(run).path.split("/") if part and part != "runs"]
    if len(path) != 3:
        raise ValueError(f"{run!r} must be entity/project/run id, or the address of a run's page.")
    entity, project, run_id = path
    for file in sorted(Path(log_folder).glob(f"*/*/{RUN_FILE}")):
        if json.loads(file.read_text()).get("id") == run_id:
            return file.parent
    if api is None:
        import wandb

        api = wandb.Api()
    with tempfile.TemporaryDirectory() as temporary:
        artifact = api.artifact(f"{entity}/{project}/run-{run_id}:latest", type=_ZIP_TYPE)
        return unpack_run(Path(artifact.download(root=temporary)) / _ZIP, log_folder)


def unpack_run(zipped: str | os.PathLike[str], log_folder: str | os.PathLike[str] = "logs") -> Path:
    """
    :param zipped: a zip of a run folder
    :param log_folder: RL Zoo's log folder
    :return: the run folder. When its name is taken by another run, it gets the next free number
    """
    with zipfile.ZipFile(zipped) as archive:
        info = json.loads(archive.read(RUN_FILE))
        group = Path(log_folder) / Path(info["algo"]).name
        group.mkdir(parents=True, exist_ok=True)
        target = _free_folder(group, Path(info["folder"]).name)
        unfinished = Path(tempfile.mkdtemp(prefix=".", dir=group))
        try:
            archive.extractall(unfinished)
            unfinished.chmod(0o755)
            unfinished.rename(target)
        except BaseException:
            shutil.rmtree(unfinished, ignore_errors=True)
            raise
    left_out = target / _LEFT_OUT
    if left_out.is_file():
        warnings.warn(f"{target} is not complete, these files were too large: {left_out.read_text()}", stacklevel=2)
    return target


def _free_folder(group: Path, name: str) -> Path:
    if not (group / name).exists():
        return group / name
    stem = re.sub(r"_\d+$", "", name)
    numbers = [
        int(match[1]) for path in group.iterdir() if (match := re.fullmatch(f"{re.escape(stem)}_(\\d+)", path.name))
    ]
    return group / f"{stem}_{max(numbers, default=0) + 1}"


def _changed_at(path: Path) -> int | None:
    """``None`` when another process has deleted it."""
    try:
        return path.stat().st_mtime_ns
    except FileNotFoundError:
        return None


def _steps_of(model: Path) -> int | None:
    """Timesteps of a saved model; ``None`` when it is being written or was removed."""
    try:
        return steps_of_model(model)
    except (FileNotFoundError, KeyError, zipfile.BadZipFile):
        return None


def _is_complete(video: Path) -> bool:
    """Whether an mp4 file has its index, which is the last thing that is written."""
    names = []
    try:
        with video.open("rb") as file:
            end = file.seek(0, os.SEEK_END)
            at = 0
            while at + 8 <= end:
                file.seek(at)
                size, name = int.from_bytes(file.read(4), "big"), file.read(4)
                if size == 1:
                    size = int.from_bytes(file.read(8), "big")
                names.append(name)
                at += size if size >= 8 else end
    except FileNotFoundError:
        return False
    return b"moov" in names and at == end
