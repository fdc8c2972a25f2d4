"""What is tracked on Weights & Biases, as it is written in a config.

tracking:
  project: landers                       # true instead of a mapping: all defaults
  group: ablation
  tags: [wind, big-net]
  mode: offline                          # online, offline, disabled; otherwise as WANDB_MODE says
  gradients: 50                          # histograms of gradients and weights, this often in a training
  upload_mb: 200                         # the zipped run folder, up to this size; 0 uploads none
"""

from __future__ import annotations

import os
from dataclasses import dataclass, fields
from functools import partial
from typing import TYPE_CHECKING, Any

from sb3_ext.common.option_readers import (
    Reader,
    may_be_none,
    read_choice,
    read_flag,
    read_number,
    read_switch,
    read_texts,
)

if TYPE_CHECKING:
    from sb3_ext.callbacks.tracking.callback import Tracking

__all__ = ["TrackingConfig", "read_tracking"]

MODES = ("online", "offline", "disabled")
#: Where runs go that say nothing: the project of RL Zoo's ``--track``
DEFAULT_PROJECT = "sb3"


@dataclass(frozen=True)
class TrackingConfig:
    """
    :param project: where the run goes; by default what ``WANDB_PROJECT`` says, or ``sb3``
    :param entity: user or team; by default the one that is logged in
    :param group: groups runs on the project's page
    :param tags: to find the run by
    :param mode: ``online``, ``offline`` or ``disabled``; by default what ``WANDB_MODE`` says
    :param notes: a text about the run
    :param name: of the run; by default ``{algo}-{run id}``
    :param gradients: how many times in a training histograms of gradients and weights are logged; 0 for never
    :param best_model: keep the best model as an artifact
    :param videos: log the videos in the run folder
    :param alerts: send alerts, which W&B passes on by mail or Slack
    :param dashboard: write ``dashboard.json``, and make a workspace of it where the package wandb-workspaces is there
    :param upload_mb: megabytes of the run folder that are zipped and uploaded at the end; 0 uploads nothing
    """

    project: str | None = None
    entity: str | None = None
    group: str | None = None
    tags: tuple[str, ...] = ()
    mode: str | None = None
    notes: str | None = None
    name: str | None = None
    gradients: int = 20
    best_model: bool = True
    videos: bool = True
    alerts: bool = True
    dashboard: bool = True
    upload_mb: float = 100.0

    @property
    def chosen_project(self) -> str:
        """Where the run goes."""
        return self.project or os.environ.get("WANDB_PROJECT") or DEFAULT_PROJECT

    def make_callback(self, **kwargs: Any) -> Tracking:
        """
        :param kwargs: what ``Tracking`` takes beside these options
        :return: what tracks a training this way
        """
        from sb3_ext.callbacks.tracking.callback import Tracking

        return Tracking(**{field.name: getattr(self, field.name) for field in fields(self)}, **kwargs)


def read_tracking(written: Any) -> TrackingConfig | None:
    """
    :param written: what a config has under ``tracking``: true, false or options
    :return: the options; ``None`` when nothing is to be tracked
    :raises TypeError: when an option is not known
    :raises ValueError: when a value is not possible
    """
    return read_switch(written, TrackingConfig, _READERS, "tracking:", "project: landers")


def _read_text(option: str, written: Any) -> str:
    if not isinstance(written, str) or not written:
        raise ValueError(f"{option}={written!r} must be a text.")
    return written


def _read_gradients(option: str, written: Any) -> int:
    if isinstance(written, bool):
        return TrackingConfig.gradients if written else 0
    number = read_number(option, written)
    if not number.is_integer() or not 0 <= number <= 1000:
        raise ValueError(f"{option}={written!r} must be true, false or a whole number up to 1000.")
    return int(number)


def _read_megabytes(option: str, written: Any) -> float:
    size = read_number(option, written)
    if not 0 <= size < float("inf"):
        raise ValueError(f"{option}={written!r} must be a number of megabytes, 0 for none.")
    return size


_READERS: dict[str, Reader] = {
    **dict.fromkeys(("project", "entity", "group", "notes", "name"), may_be_none(_read_text)),
    **dict.fromkeys(("best_model", "videos", "alerts", "dashboard"), read_flag),
    "tags": partial(read_texts, longest=64),
    "mode": may_be_none(partial(read_choice, allowed=MODES)),
    "gradients": _read_gradients,
    "upload_mb": _read_megabytes,
}
