"""Which model of a run is meant: the best, the final, the last one, or that of a step."""

import os
from pathlib import Path
from typing import Any, NamedTuple

from sb3_ext.common.model_file import read_model_file
from sb3_ext.common.usage_error import UsageError
from sb3_ext.runs.agents.checkpoint import BEST, LAST, Checkpoint, find_checkpoints, step_name
from sb3_ext.runs.find_run import find_run, split_checkpoint
from sb3_ext.runs.record import RunRecord, read_record

__all__ = ["ChosenModel", "choose_model", "describe_model", "find_model", "model_names"]

_WORDS = ("best", "final", "last")


class ChosenModel(NamedTuple):
    """``keywords`` make RL Zoo's ``get_model_path`` find the same file."""

    path: Path
    keywords: dict[str, Any]
    name: str


def find_model(name: str, log_folder: str | os.PathLike[str]) -> tuple[RunRecord, ChosenModel]:
    """:param name: a run for :func:`find_run`, or ``RUN@MODEL`` with a model for :func:`choose_model`"""
    run_name, model = split_checkpoint(name)
    record = read_record(find_run(run_name, log_folder))
    return record, choose_model(record, model)


def choose_model(run: RunRecord, name: str | None = None) -> ChosenModel:
    """
    :param name: ``best``, ``final``, ``last`` or a number of timesteps; default: the best model, or else the final one
    :raises UsageError: when the run has no such model; names those that it has
    """
    best, last = Checkpoint(run.folder, BEST).model, Checkpoint(run.folder, LAST).model
    final = run.final_model if run.final_model is not None and run.final_model.is_file() else None
    if name is None:
        name = "best" if best.is_file() else "final"
    step = name.replace("_", "").replace(",", "")
    if name == "best":
        chosen = ChosenModel(best, {"load_best": True}, name)
    elif name in ("final", "last"):
        # A training that was killed has only the last one, which RL Zoo then gets too
        chosen = ChosenModel(final or last, {}, name)
    elif step.isdecimal():
        at_step = Checkpoint(run.folder, step_name(int(step))).model
        chosen = ChosenModel(at_step, {"load_checkpoint": int(step)}, step)
    else:
        raise UsageError(f"There is no model {name!r}: expected {', '.join(_WORDS)} or a number of timesteps.")
    if not chosen.path.is_file():
        known = model_names(run)
        has = f"It has: {', '.join(f'@{name}' for name in known)}." if known else "It has no model at all."
        raise UsageError(f"{run.folder} does not have the model @{name}.\n{has}")
    return chosen


def model_names(run: RunRecord) -> list[str]:
    """Names for :func:`choose_model`: by step, then the final and the best model."""
    found = find_checkpoints(run.folder)
    names = [str(checkpoint.step) for checkpoint in found if checkpoint.kind == "step"]
    if run.final_model is not None and run.final_model.is_file():
        names.append("final")
    elif any(checkpoint.kind == "last" for checkpoint in found):
        names.append("last")
    return names + ["best"] * run.has_best_model


def describe_model(model: Path) -> str:
    """Its file, its timesteps and its score, in a line."""
    try:
        steps = read_model_file(model).num_timesteps
    except ValueError as error:
        raise UsageError(str(error)) from None
    checkpoint = Checkpoint(model.parent, model.stem)
    metrics = checkpoint.read_record().get("metrics", {}) if checkpoint.record.is_file() else {}
    score = metrics.get("eval/mean_reward")
    return f"{model}: {steps:,} steps" + ("" if score is None else f", evaluated at {score:,.2f}")
