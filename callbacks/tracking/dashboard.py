"""A dashboard for Weights & Biases, from the catalogue of metrics and the bounds that the run knows.

The layout is plain data, saved to the run folder as ``dashboard.json``. If W&B's package for workspaces is installed
(``pip install wandb-workspaces``), it becomes a view.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from importlib import import_module
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import numpy as np
from gymnasium import spaces
from stable_baselines3.common.base_class import BaseAlgorithm

from sb3_ext.callbacks.tracking.tracker import EVAL_STEP, EVAL_VEC_STEP, TIMESTEPS
from sb3_ext.metrics.bounds import hard_bounds
from sb3_ext.metrics.catalogue import catalogue, describe, ordered
from sb3_ext.runs.facts import algorithm_name
from sb3_ext.runs.files import write_json

if TYPE_CHECKING:
    from wandb import Run

__all__ = ["SOME_ENV", "Dashboard", "Panel", "Section", "dashboard", "make_workspace"]

#: For titles, if the environment has no id
SOME_ENV = "its environment"
_MAIN = "Main curves"
#: Groups of histograms
_OTHER_TITLES = {"gradients": "Gradients", "weights": "Weights"}
#: Drawn in one panel for comparison
_SCALED, _SCALED_TITLE = "train/scaled_", "Losses, scaled by their coefficients"
#: Unbounded spaces have the largest number of their type as bounds
_HUGE = 1e30
#: Groups that are open by default
_OPEN = ("eval", "video")


@dataclass(frozen=True)
class Panel:
    """``kind`` is ``line``, ``histogram`` or ``media``. ``low`` and ``high`` limit the y axis."""

    metrics: tuple[str, ...]
    title: str
    kind: str = "line"
    x: str = TIMESTEPS
    low: float | None = None
    high: float | None = None
    unit: str = ""


@dataclass(frozen=True)
class Section:
    title: str
    panels: tuple[Panel, ...]
    is_open: bool = False


@dataclass(frozen=True)
class Dashboard:
    title: str
    x: str
    sections: tuple[Section, ...]

    def save(self, path: Path) -> None:
        write_json(path, asdict(self))


def dashboard(names: Iterable[str], model: BaseAlgorithm, x: str = TIMESTEPS, env_id: str = SOME_ENV) -> Dashboard:
    """A layout for the metrics in ``names``, over the metric ``x``; evaluations have their own if there is one."""
    present = set(names)
    shown = [name for name in ordered(present) if name not in (x, TIMESTEPS, EVAL_STEP, EVAL_VEC_STEP)]
    eval_x = next((name for name in (EVAL_VEC_STEP, EVAL_STEP) if name in present), x)

    def panels_of(chosen: Iterable[str]) -> tuple[Panel, ...]:
        together: dict[str, list[str]] = {}
        for name in chosen:
            together.setdefault(_SCALED_TITLE if name.startswith(_SCALED) else name, []).append(name)
        return tuple(
            _panel(title, tuple(members), model, eval_x if title.startswith("eval/") else x)
            for title, members in together.items()
        )

    sections = [Section(_MAIN, panels_of(name for name in shown if describe(name).chart), is_open=True)]
    titles = {group.name: group.title for group in catalogue().groups} | _OTHER_TITLES
    for group, members in groupby(shown, key=lambda name: describe(name).group):
        title = titles.get(group, group or "Other")
        sections.append(Section(title, panels_of(members), is_open=group in _OPEN))
    name = f"{algorithm_name(model)} on {env_id}"
    return Dashboard(name, x, tuple(section for section in sections if section.panels))


def make_workspace(layout: Dashboard, run: Run) -> bool:
    """
    Save a layout as a view of the run's project, if ``wandb-workspaces`` is installed and the run is online. An
    existing view is left alone, because people may have changed it.
    """
    if run.offline or run.disabled or not run.project_url:
        return False
    try:
        workspaces = import_module("wandb_workspaces.workspaces")
    except ImportError:
        return False
    key = hashlib.sha256(layout.title.encode()).hexdigest()[:11]
    try:
        workspaces.Workspace.from_url(urlsplit(run.project_url)._replace(query=f"nw={key}").geturl())
        return False
    except ValueError:
        pass  # it does not exist yet
    workspace = as_workspace(layout, run.entity, run.project)
    workspace._internal_name = f"nw-{key}-v"  # used in the address, so that it is found again
    workspace.save()  # prints the address
    return True


def as_workspace(layout: Dashboard, entity: str, project: str) -> Any:
    """An unsaved object of ``wandb-workspaces``."""
    workspaces = import_module("wandb_workspaces.workspaces")
    reports = import_module("wandb_workspaces.reports.v2")

    def as_panel(panel: Panel) -> Any:
        if panel.kind == "media":
            return reports.MediaBrowser(title=panel.title, media_keys=list(panel.metrics))
        y_axis = {"range_y": (panel.low, panel.high), "title_y": panel.unit or None}
        return reports.LinePlot(title=panel.title, x=panel.x, y=list(panel.metrics), **y_axis)

    sections = [
        workspaces.Section(name=section.title, panels=list(map(as_panel, section.panels)), is_open=section.is_open)
        for section in layout.sections
    ]
    settings = workspaces.WorkspaceSettings(x_axis=layout.x)
    return workspaces.Workspace(name=layout.title, entity=entity, project=project, sections=sections, settings=settings)


def _panel(title: str, names: tuple[str, ...], model: BaseAlgorithm, x: str) -> Panel:
    info = describe(names[0])
    if info.group == "video":
        return Panel(names, title, "media", x)
    if info.unit == "histogram" or info.group in ("gradients", "weights"):
        return Panel(names, title, "histogram", x)
    low, high = _range(names[0], model) if len(names) == 1 else (None, None)
    return Panel(names, title, "line", x, low, high, "s" if info.clock else info.unit)


def _range(name: str, model: BaseAlgorithm) -> tuple[float | None, float | None]:
    low, high = hard_bounds(name, model)
    if name == "policy/action_mean" and isinstance(model.action_space, spaces.Box):
        # A Gaussian's samples can be anywhere, but their mean should be within the space
        low, high = float(np.min(model.action_space.low)), float(np.max(model.action_space.high))
    return low if abs(low) < _HUGE else None, high if abs(high) < _HUGE else None
