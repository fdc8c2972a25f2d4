"""The file that a training is resumed from: the model, and everything else that its next rollout depends on.

It is a zip archive with SB3's ``model.zip``, ``state.pkl`` (see ``sb3_ext.runs.resume``) and ``info.json``. Beside a
checkpoint there is such a file without the model, because that is the checkpoint itself. Like SB3's models, it contains
pickles: only resume runs that you trust.
"""

from __future__ import annotations

import io
import json
import os
import zipfile
from dataclasses import dataclass
from pathlib import Path

from sb3_ext.common.model_file import read_model_file
from sb3_ext.common.names import nearest
from sb3_ext.common.usage_error import UsageError
from sb3_ext.runs.agents.checkpoint import BEST, LAST, Checkpoint, find_checkpoints, step_name
from sb3_ext.runs.files import atomic_write

__all__ = ["RESUME_FILE", "Bundle", "find_bundle", "saved_step"]

RESUME_FILE = "resume.zip"
#: Of the state; a newer release may not be able to read an older one's
_FORMAT = 1


@dataclass(frozen=True)
class Bundle:
    """
    :param step: timesteps of training
    :param state: pickled; ``None``: only the model is known, and the training can't be continued exactly
    :param model: SB3's zip; ``None`` if it is in a file of its own
    :param source: the file that it was read from
    """

    step: int
    state: bytes | None
    model: bytes | None
    source: Path | None = None

    def write(self, path: str | os.PathLike[str]) -> None:
        """Replace the file; if this fails or is interrupted, the old one stays."""
        with atomic_write(path) as unfinished, unfinished.open("wb") as file:
            with zipfile.ZipFile(file, "w") as archive:
                archive.writestr("info.json", json.dumps({"format": _FORMAT, "step": self.step}))
                for name, content in (("state.pkl", self.state), ("model.zip", self.model)):
                    if content is not None:
                        archive.writestr(name, content)
            file.flush()
            os.fsync(file.fileno())  # a new name on an old disk: the contents must be there before the name is

    @classmethod
    def read(cls, path: Path) -> Bundle:
        """:raises UsageError: when the file is damaged or of another format"""
        try:
            with zipfile.ZipFile(path) as archive:
                info, names = json.loads(archive.read("info.json")), archive.namelist()
                if info["format"] != _FORMAT:
                    raise UsageError(f"{path} was written by another release of sb3-ext, whose states can't be read.")
                model = archive.read("model.zip") if "model.zip" in names else None
                return cls(int(info["step"]), archive.read("state.pkl"), model, path)
        except (zipfile.BadZipFile, KeyError, TypeError, json.JSONDecodeError, EOFError) as error:
            raise UsageError(
                f"{path} is damaged: {error}.\nContinue from a checkpoint: `sb3-ext resume RUN@last`."
            ) from None

    def open_model(self) -> io.BytesIO:
        assert self.model is not None
        return io.BytesIO(self.model)


def saved_step(folder: str | os.PathLike[str]) -> int | None:
    """Timesteps of the latest state of a run; ``None`` if there is none that can be read."""
    try:
        with zipfile.ZipFile(Path(folder) / RESUME_FILE) as archive:
            return int(json.loads(archive.read("info.json"))["step"])
    except (OSError, zipfile.BadZipFile, KeyError, TypeError, ValueError, EOFError):
        return None


def find_bundle(folder: Path, checkpoint: str | None = None) -> Bundle:
    """
    What a run can be resumed from.

    :param checkpoint: ``best``, ``last``, a number of timesteps or a file's name; default: the latest state
    :raises UsageError: when there is nothing to resume from
    """
    if checkpoint is None and (folder / RESUME_FILE).is_file():
        return Bundle.read(folder / RESUME_FILE)
    found = {saved.name: saved for saved in find_checkpoints(folder)}
    if not found:
        raise UsageError(
            f"There is nothing in {folder} to resume from: no {RESUME_FILE} and no checkpoint.\n"
            "Start the training again; `sb3-ext show` prints its command."
        )
    if checkpoint is None:
        # Exact ones first, then the most timesteps
        return _read(max(found.values(), key=lambda saved: (saved.state.is_file(), saved.step)))
    name = {"best": BEST, "last": LAST}.get(checkpoint, checkpoint.removesuffix(".zip"))
    name = step_name(int(name)) if name.isdecimal() else name
    if name not in found:
        raise UsageError(f"{folder} has no checkpoint {checkpoint!r}: {nearest(name, found)}")
    return _read(found[name])


def _read(checkpoint: Checkpoint) -> Bundle:
    try:
        step = read_model_file(checkpoint.model).num_timesteps
    except ValueError as error:
        raise UsageError(f"{error}.\nIt may have been cut off: choose another checkpoint.") from None
    model = checkpoint.model.read_bytes()
    if checkpoint.state.is_file():
        state = Bundle.read(checkpoint.state)
        return Bundle(state.step, state.state, model, checkpoint.model)
    return Bundle(step, None, model, checkpoint.model)
