"""Logs a study to Weights & Biases: one run, with a row for each trial that has ended, plots, report and section."""

from __future__ import annotations

import secrets
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import optuna

from sb3_ext.common.clean_text import mask_passwords, masked_command_line
from sb3_ext.runs.facts import plain
from sb3_ext.tune.plots import PLOTS
from sb3_ext.tune.record import TrialRecord, trial_record

if TYPE_CHECKING:
    from wandb import Run

__all__ = ["log_study"]

#: Attribute of the study: its run, and the trials that it has
_ATTRIBUTE = "wandb"
_FILES = ("report.md", "tuned.yml", *(f"{name}.png" for name in PLOTS))


def log_study(study: optuna.Study, folder: Path, project: str, entity: str | None = None) -> None:
    """
    Log what is new since the last time; a study that continues goes on in its run. A problem is a warning.

    :param folder: of the study, with its plots and report
    :param entity: user or team; default: the logged-in user
    """
    try:
        _log(study, folder, project, entity)
    # wandb raises its own errors and those of the network, and the study is on disk already
    except Exception as error:
        message = mask_passwords(f"{type(error).__name__}: {error}")
        hint = "Log in with `wandb login`, or set WANDB_MODE=offline, and run the command again."
        warnings.warn(f"The study was not sent to W&B: {message}\n{hint}", stacklevel=2)


def _log(study: optuna.Study, folder: Path, project: str, entity: str | None) -> None:
    import wandb

    known = study.user_attrs.get(_ATTRIBUTE) or {}
    if (known.get("project"), known.get("entity")) != (project, entity):
        known = {"id": secrets.token_hex(4), "project": project, "entity": entity, "trials": []}
    settings = wandb.Settings(max_end_of_run_history_metrics=0, max_end_of_run_summary_metrics=0)
    with masked_command_line():  # W&B uploads it
        run = wandb.init(
            project=project,
            entity=entity,
            id=known["id"],
            name=study.study_name,
            job_type="study",
            resume="allow",
            reinit="create_new",
            settings=settings,
        )
    with run:
        trials = [trial_record(trial) for trial in study.get_trials(deepcopy=False)]
        ended = [trial for trial in trials if trial.state in ("complete", "pruned", "failed")]
        _log_rows(run, ended, set(known["trials"]))
        _log_config(run, study, ended)
        _log_files(run, folder)
        known = {**known, "trials": [trial.number for trial in ended]}
    study.set_user_attr(_ATTRIBUTE, known)


def _log_rows(run: Run, trials: list[TrialRecord], logged: set[int]) -> None:
    """On the axis of trials. The best score is the best of the trials up to this one."""
    import wandb

    run.define_metric("trial")
    run.define_metric("*", step_metric="trial")
    best: float | None = None
    rows = []
    for trial in trials:
        if trial.score is not None:
            best = trial.score if best is None else max(best, trial.score)
        row = {"trial": trial.number, "score": trial.score, "best_score": best, "state": trial.state}
        steps = sum(curve.steps for curve in trial.curves)
        row |= {"proposed_by": trial.proposed_by, "steps": steps, **_flat("params", trial.params)}
        rows.append(row)
        if trial.number not in logged:
            run.log({name: value for name, value in row.items() if value is not None})
    # A row of the history is not a line of parallel coordinates, a row of a table is
    columns: list[str | int] = list(dict.fromkeys(name for row in rows for name in row))
    cells = [[row.get(str(name)) for name in columns] for row in rows]
    run.log({"trials": wandb.Table(columns, cells, allow_mixed_types=True)})


def _log_config(run: Run, study: optuna.Study, trials: list[TrialRecord]) -> None:
    """Flat, because W&B draws parallel coordinates over the configs of runs: here, of studies."""
    settings = dict(study.user_attrs.get("settings", {}))
    start = settings.pop("start", {})
    complete = [trial for trial in trials if trial.score is not None]
    result = study.user_attrs.get("result")
    best = max(complete, key=lambda trial: (trial.score, -trial.number), default=None)
    if result is not None:
        best = next((trial for trial in trials if trial.number == result["best"]["trial"]), best)
    config = {**settings, "study": study.study_name, **_flat("start", start)}
    if best is not None:
        config |= _flat("best", best.section)
        run.summary.update({"best_trial": best.number, "best_score": best.score, "n_trials": len(trials)})
    run.config.update({name: plain(value) for name, value in config.items()}, allow_val_change=True)
    if result is not None:
        run.summary.update({"difference": result["difference"][0], "is_better": result["is_better"]})


def _flat(prefix: str, values: dict[str, Any]) -> dict[str, Any]:
    return {f"{prefix}.{name}": value for name, value in values.items()}


def _log_files(run: Run, folder: Path) -> None:
    import wandb

    pictures = {f"{name} plot": folder / f"{name}.png" for name in PLOTS}
    shown = {name: wandb.Image(str(path)) for name, path in pictures.items() if path.is_file()}
    if shown:
        run.log(shown)
    artifact = wandb.Artifact(f"study-{run.id}", type="study")
    for name in _FILES:
        if (folder / name).is_file():
            artifact.add_file(str(folder / name), name=name)
    run.log_artifact(artifact)
