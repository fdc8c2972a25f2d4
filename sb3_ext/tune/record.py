"""A study as it is stored in Optuna: which attributes of trials and studies mean what."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from optuna.trial import FrozenTrial, TrialState

from sb3_ext.zoo.trial_training import Curve, Point

__all__ = ["STATES", "TrialRecord", "changes", "curve_from", "curve_to", "seeds_of", "trial_record", "value_text"]

STATES = {
    TrialState.COMPLETE: "complete",
    TrialState.PRUNED: "pruned",
    TrialState.RUNNING: "running",
    TrialState.FAIL: "failed",
    TrialState.WAITING: "waiting",
}


class TrialRecord(NamedTuple):
    """
    A trial, read back.

    :param state: ``complete``, ``pruned``, ``running``, ``failed`` or ``waiting``
    :param params: Optuna's parameters
    :param section: what was trained, as in a hyperparameter file
    :param score: over the seeds; ``None`` if it is not complete
    :param curves: of the seeds that were trained, in their order
    :param proposed_by: ``start``, ``rl_zoo``, ``run``, or the name of a sampler
    """

    number: int
    state: str
    params: dict[str, Any]
    section: dict[str, Any]
    score: float | None
    curves: tuple[Curve, ...]
    proposed_by: str


def curve_to(curve: Curve) -> dict[str, Any]:
    """For JSON: the value of a trial's attribute ``curve <number of the seed>``."""
    return {**curve._asdict(), "points": [list(point) for point in curve.points]}


def curve_from(raw: dict[str, Any]) -> Curve:
    return Curve(**{**raw, "points": tuple(Point(*point) for point in raw["points"])})


def trial_record(trial: FrozenTrial) -> TrialRecord:
    attributes = trial.user_attrs
    curves = [curve_from(attributes[f"curve {seed}"]) for seed in seeds_of(attributes)]
    value = trial.value if trial.state == TrialState.COMPLETE else None
    section, proposed_by = attributes.get("section", {}), attributes.get("proposed_by", "")
    return TrialRecord(trial.number, STATES[trial.state], trial.params, section, value, tuple(curves), str(proposed_by))


def seeds_of(attributes: Mapping[str, Any]) -> list[int]:
    """Numbers of the seeds whose curves are stored."""
    return sorted(int(name.removeprefix("curve ")) for name in attributes if name.startswith("curve "))


def changes(start: Mapping[str, Any], section: Mapping[str, Any]) -> dict[str, Any]:
    """Hyperparameters of a section that the start has not, or has with other values."""
    return {name: value for name, value in section.items() if name not in start or start[name] != value}


def value_text(value: Any) -> str:
    """Three digits tell hyperparameters apart; near 1, where discount factors are, five do."""
    if isinstance(value, float):
        return f"{value:.5g}" if 0.9 < value < 1 else f"{value:.3g}"
    if value is None:
        return "none"
    # Numbers inside of schedules and keyword arguments
    return re.sub(r"\d+\.\d{3,}(?:e[+-]?\d+)?", lambda found: value_text(float(found[0])), str(value))
