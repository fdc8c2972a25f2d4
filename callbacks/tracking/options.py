"""Options of tracking on Weights & Biases or MLflow:

tracking:
  project: landers                       # or true instead of a mapping, for all defaults
  group: ablation
  tags: [wind, big-net]
  mode: offline                          # online, offline, disabled; default: WANDB_MODE
  gradients: 50                          # histograms of gradients and weights per training
  upload_mb: 200                         # maximum size of the uploaded run folder; 0 uploads nothing

tracking:
  to: mlflow                             # or tracking: mlflow
  experiment: landers
  uri: sqlite:///mlflow.db               # a database or a server; default: MLFLOW_TRACKING_URI
"""

import os
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field, StringConstraints, model_validator

from sb3_ext.common.options import Integer, Items, Number, Options, Text, to_switch

__all__ = ["TrackingField", "TrackingOptions"]

#: As in RL Zoo's ``--track``
DEFAULT_PROJECT = "sb3"
_GRADIENTS = 20
#: Options that only one tracker has, with those of the other that mean the same
_ONLY: dict[str, dict[str, str | None]] = {
    "wandb": {"project": "experiment", **dict.fromkeys(("entity", "group", "mode", "gradients", "dashboard"))},
    "mlflow": {"experiment": "project", "uri": None},
}


def _to_gradients(raw: Any) -> Any:
    return _GRADIENTS * raw if isinstance(raw, bool) else raw


class TrackingOptions(Options):
    """
    :param to: the tracker, ``wandb`` or ``mlflow``
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
    :param alerts: send alerts: W&B forwards them by mail or Slack, MLflow shows them as tags
    :param dashboard: write ``dashboard.json``, and create a workspace if wandb-workspaces is installed
    :param upload_mb: maximum size of the uploaded run folder, before compression; 0: upload nothing
    :param experiment: on MLflow; default: ``MLFLOW_EXPERIMENT_NAME``, or ``sb3``
    :param uri: MLflow's database or server; default: ``MLFLOW_TRACKING_URI``, or a file ``mlflow.db``
    """

    callback: ClassVar[str] = "sb3_ext.callbacks.tracking.Tracking"

    to: Literal["wandb", "mlflow"] = "wandb"
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
    experiment: Text | None = None
    uri: Text | None = None

    @model_validator(mode="before")
    @classmethod
    def _check_tracker(cls, raw: Any) -> Any:
        """Refuse options of the other tracker, and switch off what MLflow does not have."""
        if not isinstance(raw, Mapping):
            return raw
        to = raw.get("to", "wandb")
        other = {"wandb": "mlflow", "mlflow": "wandb"}.get(to, "")
        for name, same in _ONLY.get(other, {}).items():
            if raw.get(name):
                raise ValueError(f"{name} is an option of {other}, and not of {to}{f': use {same}' if same else ''}")
        return {**raw, "gradients": 0, "dashboard": False} if to == "mlflow" else raw

    @property
    def chosen_project(self) -> str:
        return self.project or os.environ.get("WANDB_PROJECT") or DEFAULT_PROJECT

    @property
    def chosen_experiment(self) -> str:
        return self.experiment or os.environ.get("MLFLOW_EXPERIMENT_NAME") or DEFAULT_PROJECT


def _to_tracking(raw: Any) -> Any:
    return to_switch({"to": raw} if isinstance(raw, str) else raw)


#: A switch, or the name of the tracker
TrackingField = Annotated[TrackingOptions | None, BeforeValidator(_to_tracking)]
