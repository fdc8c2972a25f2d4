"""The interface between tracking and a service that keeps the runs, W&B or MLflow."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol

import numpy as np
from stable_baselines3.common.logger import Image, KVWriter

from sb3_ext.common.clean_text import mask_passwords
from sb3_ext.runs.facts import RunFacts

if TYPE_CHECKING:
    from sb3_ext.callbacks.tracking.dashboard import Dashboard

__all__ = [
    "EVAL",
    "EVAL_STEP",
    "EVAL_VEC_STEP",
    "TIMESTEPS",
    "VEC_STEPS",
    "Axis",
    "Tracker",
    "VideoFile",
    "end_of",
    "pixels_of",
    "tolerated",
]

#: The x axis of a run
TIMESTEPS = "time/total_timesteps"
#: The x axis with ``axis: vec_steps``
VEC_STEPS = "time/vec_steps"
#: Metrics of evaluations, and the timesteps of the evaluated weights
EVAL, EVAL_STEP, EVAL_VEC_STEP = "eval/", "eval/step", "eval/vec_step"


@dataclass(frozen=True)
class Axis:
    """
    The x axis of a run.

    :param metric: its name
    :param eval_metric: that of evaluations, if a row has it
    :param timesteps: of one step on the axis
    """

    metric: str = TIMESTEPS
    eval_metric: str = EVAL_STEP
    timesteps: int = 1

    @classmethod
    def of(cls, facts: RunFacts) -> Axis:
        return cls(VEC_STEPS, EVAL_VEC_STEP, facts.n_envs) if facts.axis == "vec_steps" else cls()

    def at(self, timesteps: int) -> int:
        return timesteps // self.timesteps


class VideoFile(NamedTuple):
    """A value of a row: an mp4 file."""

    path: Path


class Tracker(Protocol):
    """Keeps one run at a time. It may raise anything in :meth:`log_files`, :meth:`alert` and :meth:`show`."""

    #: For messages, and the name by which metrics exclude it from their outputs
    title: ClassVar[str]
    key: ClassVar[str]
    #: Of the open run
    axis: Axis
    #: Whether the service reads the logger's TensorBoard files, so that it needs only what they lack
    reads_tensorboard: bool

    def start(self, facts: RunFacts, outputs: Sequence[KVWriter], continued: str | None) -> dict[str, Any]:
        """
        Start a run, or take over the one that the program has opened.

        :param outputs: of the logger
        :param continued: id of the run of a training that is resumed
        :return: its id and its address
        :raises UsageError: when the service can't be used
        """

    def log_config(self, config: Mapping[str, Any]) -> None: ...

    def log(self, timesteps: int, values: Mapping[str, Any]) -> None:
        """:param values: numbers, texts, arrays for histograms, SB3's figures, images and videos, :class:`VideoFile`"""

    def log_files(self, name: str, kind: str, folder: Path, metadata: Mapping[str, Any]) -> None:
        """Upload the files in a folder, which is deleted afterwards. The same name again is a new version."""

    def alert(self, rule: str, title: str, text: str, severity: str) -> None: ...

    def show(self, layout: Dashboard) -> None:
        """Show the metrics in this layout, if the service has layouts."""

    def finish(self, error: BaseException | None) -> None:
        """:param error: what ended the training"""


def end_of(error: BaseException | None) -> str:
    """How a training ended, for people."""
    if isinstance(error, KeyboardInterrupt):
        return "interrupted"
    return "complete" if error is None else mask_passwords(f"{type(error).__name__}: {error}")[:300]


@contextmanager
def tolerated(title: str) -> Iterator[None]:
    """An error becomes a warning: a training must go on without its tracker."""
    try:
        yield
    # A tracker raises its own errors and those of the network
    except Exception as error:
        message = mask_passwords(f"{type(error).__name__}: {error}")
        warnings.warn(f"Part of the run was not sent to {title}: {message}", stacklevel=3)


def pixels_of(image: Image) -> np.ndarray:
    """Height, width, colours."""
    pixels = np.asarray(image.image)
    return pixels.transpose([image.dataformats.index(axis) for axis in "HWC" if axis in image.dataformats])
