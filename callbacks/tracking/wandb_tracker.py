"""Runs on Weights & Biases.

W&B counts calls of ``log``, which says nothing about training. Here the x axis is a metric: timesteps, which every row
has. Evaluations use the timesteps of the evaluated weights if they are known.
"""

from __future__ import annotations

import os
import secrets
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch as th
from stable_baselines3.common.logger import Figure, Image, KVWriter, TensorBoardOutputFormat, Video

from sb3_ext.callbacks.tracking.dashboard import Dashboard, make_workspace
from sb3_ext.callbacks.tracking.options import TrackingOptions
from sb3_ext.callbacks.tracking.tracker import EVAL, TIMESTEPS, Axis, VideoFile, end_of, pixels_of
from sb3_ext.common.clean_text import masked_command_line
from sb3_ext.common.usage_error import UsageError
from sb3_ext.runs.facts import RunFacts, plain
from sb3_ext.runs.rows import scalars

if TYPE_CHECKING:
    from wandb import Run as WandbRun

__all__ = ["WandbTracker"]

#: The x axis of a run that W&B reads from TensorBoard's files, the only one they have
_SYNCED_STEP = "global_step"
#: Seconds between messages about the same alert
_ALERT_EVERY = 600.0
#: W&B's level of an alert, by its severity
_LEVELS = {"error": "ERROR", "warning": "WARN", "hint": "INFO"}
#: W&B's own exit code for Ctrl-C
_CTRL_C = 255


class WandbTracker:
    """
    If a run is already open, as with RL Zoo's ``--track``, it continues that run: it adds what is missing and finishes
    it. If W&B reads TensorBoard's files for that run (``sync_tensorboard=True``), no number is logged twice.
    """

    title: ClassVar[str] = "W&B"
    key: ClassVar[str] = "wandb"

    def __init__(self, options: TrackingOptions) -> None:
        self._options = options
        self.axis = Axis()
        self.reads_tensorboard = False
        self._opened: WandbRun | None = None
        self._eval_names: set[str] = set()

    @property
    def _run(self) -> WandbRun:
        assert self._opened is not None
        return self._opened

    def start(self, facts: RunFacts, outputs: Sequence[KVWriter], continued: str | None) -> dict[str, Any]:
        import wandb

        given = wandb.run
        run = given if given is not None else self._new_run(facts.algo, continued)
        self._opened, self._eval_names = run, set()
        self.reads_tensorboard = given is not None and _is_synced(outputs)
        self.axis = Axis(_SYNCED_STEP) if self.reads_tensorboard else Axis.of(facts)
        run.define_metric(self.axis.metric)
        run.define_metric("*", step_metric=self.axis.metric)
        if given is not None:
            self._warn_of_unused_options(given)
            # RL Zoo's --track uploads all arguments, including --storage with its password
            self.log_config({name: plain(value) for name, value in given.config.items() if plain(value) != value})
        self.log_config(facts.config())
        address = {name: getattr(run, name) for name in ("id", "name", "entity", "project")}
        return {**address, "url": None if run.offline else run.url}

    def _new_run(self, algo: str, continued: str | None) -> WandbRun:
        import wandb

        options = self._options
        run_id = os.environ.get("WANDB_RUN_ID") or continued or secrets.token_hex(4)
        # The table and the report already show the numbers
        settings = wandb.Settings(max_end_of_run_history_metrics=0, max_end_of_run_summary_metrics=0)
        try:
            with masked_command_line():  # W&B uploads it
                return wandb.init(
                    project=options.chosen_project,
                    entity=options.entity,
                    group=options.group,
                    tags=options.tags or None,
                    mode=options.mode,
                    notes=options.notes,
                    id=run_id,
                    resume="allow" if run_id == continued else None,
                    name=options.name or f"{algo}-{run_id}",
                    settings=settings,
                )
        except wandb.Error as error:
            hint = "Log in with `wandb login`, or set WANDB_MODE=offline to keep the run on this machine."
            raise UsageError(f"W&B: {error}\n{hint}") from error

    def _warn_of_unused_options(self, run: WandbRun) -> None:
        names = ("project", "entity", "group", "notes", "name", "mode")
        given = {name: getattr(self._options, name) for name in names}
        unused = [name for name, value in given.items() if value is not None and value != getattr(run, name, None)]
        if unused:
            warnings.warn(
                f"tracking: {', '.join(unused)}: not used, because the run {run.name!r} was already open in project "
                f"{run.project!r}. Omit --track, or give it these options.",
                stacklevel=2,
            )
        if self._options.tags:
            run.tags = (*(run.tags or ()), *self._options.tags)

    def log_config(self, config: Mapping[str, Any]) -> None:
        self._run.config.update(dict(config), allow_val_change=True)

    def log(self, timesteps: int, values: Mapping[str, Any]) -> None:
        converted = {name: _converted(value) for name, value in values.items()}
        logged = {name: value for name, value in converted.items() if value is not None}
        if logged:
            self._draw_over_eval_step(logged)
            self._run.log({**logged, self.axis.metric: self.axis.at(timesteps), TIMESTEPS: timesteps})

    def _draw_over_eval_step(self, logged: Mapping[str, Any]) -> None:
        """Define each name, because W&B chooses at random between matching patterns such as ``*`` and ``eval/*``."""
        step = self.axis.eval_metric
        for name in logged if step in logged else ():
            if name.startswith(EVAL) and name not in self._eval_names:
                self._eval_names.add(name)
                self._run.define_metric(name, step_metric=None if name == step else step)

    def log_files(self, name: str, kind: str, folder: Path, metadata: Mapping[str, Any]) -> None:
        import wandb

        artifact = wandb.Artifact(f"{name}-{self._run.id}", type=kind, metadata=dict(metadata))
        for path in sorted(folder.iterdir()):
            artifact.add_file(str(path), name=path.name)  # W&B copies it
        self._run.log_artifact(artifact, aliases=["best", "latest"] if kind == "model" else ["latest"])

    def alert(self, rule: str, title: str, text: str, severity: str) -> None:
        self._run.alert(title[:63], text, level=_LEVELS[severity], wait_duration=_ALERT_EVERY)

    def show(self, layout: Dashboard) -> None:
        make_workspace(layout, self._run)

    def finish(self, error: BaseException | None) -> None:
        run, self._opened = self._run, None
        run.summary["end"] = end_of(error)
        run.finish(exit_code=_CTRL_C if isinstance(error, KeyboardInterrupt) else int(error is not None))


def _is_synced(outputs: Sequence[KVWriter]) -> bool:
    """Whether W&B reads the logger's TensorBoard files."""
    import wandb

    has_files = any(isinstance(output, TensorBoardOutputFormat) for output in outputs)
    return has_files and bool(wandb.patched["tensorboard"])


def _converted(value: Any) -> Any:
    """What W&B shows for a value; ``None`` if it can't show it."""
    import wandb

    if isinstance(value, str):
        return value
    if isinstance(value, VideoFile):
        return wandb.Video(str(value.path), format="mp4")
    number = scalars({"value": value}).get("value")
    if number is not None:
        return int(value) if isinstance(value, int | np.integer) and not isinstance(value, bool) else number
    if isinstance(value, th.Tensor):
        value = value.detach().cpu().numpy()
    if isinstance(value, np.ndarray):
        finite = value[np.isfinite(value)]
        return wandb.Histogram(finite) if finite.size else None  # type: ignore[arg-type]
    if isinstance(value, Figure):
        return wandb.Image(value.figure)
    if isinstance(value, Image):
        return wandb.Image(value.image if isinstance(value.image, str) else pixels_of(value))
    if isinstance(value, Video):
        return wandb.Video(value.frames.cpu().numpy(), fps=max(round(value.fps), 1), format="gif")
    return None
