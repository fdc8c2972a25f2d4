"""What is tracked on Weights & Biases:

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
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field, StringConstraints

from sb3_ext.common.options import Integer, Items, Number, Options, Text

__all__ = ["TrackingOptions"]

#: Project of runs that name none: that of RL Zoo's ``--track``
DEFAULT_PROJECT = "sb3"
_GRADIENTS = 20


def _to_gradients(raw: Any) -> Any:
    return _GRADIENTS * raw if isinstance(raw, bool) else raw


class TrackingOptions(Options):
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

    callback: ClassVar[str] = "sb3_ext.callbacks.tracking.Tracking"

    project: Text | None = None
    entity: Text | None = None
    group: Text | None = None
    tags: Items[Annotated[str, StringConstraints(min_length=1, max_length=64)]] = ()
    mode: Literal["online", "offline", "disabled"] | None = None
    notes: Annotated[str, StringConstraints(min_length=1)] | None = None
    name: Text | None = None
    gradients: Annotated[Integer, BeforeValidator(_to_gradients), Field(ge=0, le=1000)] = _GRADIENTS
    best_model: bool = True
    videos: bool = True
    alerts: bool = True
    dashboard: bool = True
    upload_mb: Annotated[Number, Field(ge=0)] = 100.0

    @property
    def chosen_project(self) -> str:
        """Where the run goes."""
        return self.project or os.environ.get("WANDB_PROJECT") or DEFAULT_PROJECT
