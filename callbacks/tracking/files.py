"""Sends a run's files to its tracker: videos, checkpoint times, the best model, and the run folder as a zip."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from sb3_ext.callbacks.tracking.tracker import Tracker, VideoFile
from sb3_ext.callbacks.tracking.writer import TrackerWriter
from sb3_ext.common.model_file import read_model_file
from sb3_ext.runs.agents.checkpoint import BEST, Checkpoint, Video, find_checkpoints, find_videos
from sb3_ext.runs.agents.statistics import matching_statistics
from sb3_ext.runs.files import link_or_copy
from sb3_ext.runs.run_zip import ZIP_NAME, ZIP_TYPE, leads_out, masked_lines, zip_run

__all__ = ["RunFiles"]

#: Metric for the time of saving, by kind of checkpoint
_SAVED = {"step": "time/checkpoint", "best": "time/best_model", "last": "time/last_model"}
#: Seconds between uploads of best models, which can come every few seconds at first
_UPLOAD_EVERY = 600.0


class RunFiles:
    """Finds what is new in a run folder."""

    def __init__(self, folder: Path, tracker: Tracker, writer: TrackerWriter, started: float) -> None:
        self.folder = folder
        self._tracker = tracker
        self._writer = writer
        #: Time of the start of training
        self.started = started
        self._best = Checkpoint(folder, BEST)
        self._seen = {path: _changed_at(path) for path in (*self._videos(), *self._models())}
        self._uploaded_best = self._seen.get(self._best.model)
        self._uploaded_at = 0.0

    def log_videos(self, timesteps: int) -> None:
        """Log new videos, each at the timestep in its name, or at ``timesteps`` if it has none."""
        videos = self._videos()
        for path in self._new(videos):
            if not _is_complete(path):
                del self._seen[path]
                continue
            _, name, step = videos[path]
            self._writer.log(timesteps if step is None else step, {f"video/{name}": VideoFile(path)})

    def log_checkpoint_times(self) -> None:
        """Log the training time at which new checkpoints and best models were saved, at their timesteps."""
        models = self._models()
        for path in self._new(models):
            step = _steps_of(path)
            if step is not None:
                self._writer.log(step, {_SAVED[models[path]]: path.stat().st_mtime - self.started})

    def upload_best_model(self, at_once: bool = False) -> None:
        """
        Upload a new best model with its statistics and config as an artifact, at most every ten minutes unless
        ``at_once``.
        """
        best = self._best.model
        now = time.monotonic()
        if not best.is_file() or leads_out(best, self.folder) or _changed_at(best) == self._uploaded_best:
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
            # Not normalised, or RL Zoo's single file for all models
            files += self.folder.glob("*/vecnormalize.pkl")
        except ValueError:
            return  # its statistics are not written yet
        self._uploaded_best, self._uploaded_at = _changed_at(best), now
        metadata: dict[str, Any] = {"timesteps": step}
        if self._best.record.is_file():
            files.append(self._best.record)
            metadata["metrics"] = self._best.read_record()["metrics"]
        files = [path for path in files if not leads_out(path, self.folder)]
        with tempfile.TemporaryDirectory() as temporary:
            for path in files:
                # A copy or a link, because the file can change or disappear before it is sent
                _copy_masked(path, Path(temporary) / path.name)
            self._tracker.log_files("model", "model", Path(temporary), metadata)

    def upload_folder(self, max_mb: float) -> list[str]:
        """Upload the run folder as a zip of at most ``max_mb``. Returns the files left out, and why."""
        with tempfile.TemporaryDirectory() as temporary:
            left_out = zip_run(self.folder, Path(temporary) / ZIP_NAME, max_mb)
            metadata = {"folder": self.folder.name, "left_out": left_out}
            self._tracker.log_files("run", ZIP_TYPE, Path(temporary), metadata)
        return left_out

    def _videos(self) -> dict[Path, Video]:
        return {video.path: video for video in find_videos(self.folder) if not leads_out(video.path, self.folder)}

    def _models(self) -> dict[Path, str]:
        """Saved models, with the kind of each checkpoint."""
        return {checkpoint.model: checkpoint.kind for checkpoint in find_checkpoints(self.folder)}

    def _new(self, paths: Iterable[Path]) -> list[Path]:
        """New and changed files, oldest first."""
        new = []
        for path in paths:
            changed_at = _changed_at(path)
            if changed_at is not None and self._seen.get(path) != changed_at:
                self._seen[path] = changed_at
                new.append((changed_at, path))
        return [path for _, path in sorted(new)]


def _copy_masked(path: Path, target: Path) -> None:
    if path.suffix in (".json", ".yml"):
        target.write_bytes(b"".join(masked_lines(path)))
    else:
        link_or_copy(path, target)


def _changed_at(path: Path) -> int | None:
    """``None`` if another process has deleted it."""
    try:
        return path.stat().st_mtime_ns
    except FileNotFoundError:
        return None


def _steps_of(model: Path) -> int | None:
    """Timesteps of a saved model; ``None`` if it is incomplete or gone."""
    try:
        return read_model_file(model).num_timesteps
    except (FileNotFoundError, ValueError):
        return None


def _is_complete(video: Path) -> bool:
    """Whether an mp4 file has its index, which is written last."""
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
