"""Options of tracking on Weights & Biases:

tracking:
  project: landers                       # or true instead of a mapping, for all defaults
  group: ablation
  tags: [wind, big-net]
  mode: offline                          # online, offline, disabled; default: WANDB_MODE
  gradients: 50                          # histograms of gradients and weights per training
  upload_mb: 200                         # maximum size of the uploaded run folder; 0 uploads nothing
"""

import os
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field, StringConstraints

from sb3_ext.common.options import Integer, Items, Number, Options, Text

__all__ = ["TrackingOptions"]

#: As in RL Zoo's ``--track``
DEFAULT_PROJECT = "sb3"
_GRADIENTS = 20


def _to_gradients(raw: Any) -> Any:
    return _GRADIENTS * raw if isinstance(raw, bool) else raw


class TrackingOptions(Options):
    """
    :param project: default: ``WANDB_PROJECT``, or ``sb3``
    :param entity: user or team; default: the logged-in user
    :param group: groups runs on the project's page
    :param tags: tags of the run
    :param mode: ``online``, ``offline`` or ``disabled``; default: ``WANDB_MODE``
    :param notes: text about the run
    :param name: default: ``{algo}-{run id}``
    :param gradients: how many times per training to log histograms of gradients and weights; 0: never
    :param best_model: upload the best model as an artifact
    :param videos: log the videos in the run folder
    :param alerts: send alerts, which W&B forwards by mail or Slack
    :param dashboard: write ``dashboard.json``, and create a workspace if wandb-workspaces is installed
    :param upload_mb: maximum size of the uploaded run folder, before compression; 0: upload nothing
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
        return self.project or os.environ.get("WANDB_PROJECT") or DEFAULT_PROJECT
