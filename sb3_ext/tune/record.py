"""A study as it is stored in Optuna: which attributes of trials and studies mean what."""

from __future__ import annotations

from typing import Any, NamedTuple

from sb3_ext.zoo.trial_training import Curve, Point

__all__ = ["TrialRecord", "curve_from", "curve_to"]


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
