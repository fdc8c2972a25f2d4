"""Reads schedules as they are written in a config or a constructor, with errors for anything else."""

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from sb3_ext.common.arguments import read_number
from sb3_ext.common.names import check_choice, nearest
from sb3_ext.common.schedules.kinds import SHAPES, Constant, Curve, LinearToZero, Points, Schedule

__all__ = ["parse_schedule"]

_FORMS = "a number, 'lin_0.001', {start, end, shape, from, to, min, warmup}, or points [[0, 0.1], [1, 0.001]]"
_CURVE_KEYS = {"start": "start", "end": "end", "shape": "shape", "from": "begin", "to": "finish", "min": "minimum",
               "warmup": "warmup"}  # fmt: skip


def parse_schedule(name: str, raw: Any) -> Schedule | Callable[[float], float]:
    """
    :param name: name of the parameter, for the errors
    :param raw: a number (also as a string, as YAML reads ``1e-4``), ``lin_0.001``, a mapping, a list of points, or a
        function of the remaining progress, which is returned as it is
    :raises ValueError: when it is none of these, or makes no sense
    """
    if isinstance(raw, bool) or raw is None:
        raise ValueError(f"{name}={raw!r} is not a schedule: write {_FORMS}.")
    if isinstance(raw, (int, float)):
        return Constant(_number(name, raw))
    if isinstance(raw, str):
        return _from_string(name, raw)
    if isinstance(raw, Mapping):
        return _from_mapping(name, raw)
    if isinstance(raw, Sequence):
        return _from_points(name, raw)
    if callable(raw):
        return raw
    raise ValueError(f"{name}={raw!r} is not a schedule: write {_FORMS}.")


def _from_string(name: str, raw: str) -> Schedule:
    kind, separator, value = raw.partition("_")
    if separator and kind == "lin":
        return LinearToZero(_number(name, value))
    try:
        return Constant(_number(name, raw))
    except ValueError:
        hint = " Did you mean 'lin_…'?" if separator and kind.lower().startswith("l") else ""
        raise ValueError(f"{name}={raw!r} is not a schedule: write {_FORMS}.{hint}") from None


def _from_mapping(name: str, raw: Mapping[str, Any]) -> Curve:
    for key in raw:
        if key not in _CURVE_KEYS:
            raise ValueError(f"{name} has no key {key!r}: {nearest(str(key), _CURVE_KEYS)}")
    if "start" not in raw:
        raise ValueError(f"{name}={dict(raw)} needs 'start'.")
    shape = raw.get("shape", "constant" if "end" not in raw and "warmup" in raw else "linear")
    check_choice(f"{name}'s shape", shape, SHAPES)
    numbers = {_CURVE_KEYS[key]: _number(f"{name}'s {key}", value) for key, value in raw.items() if key != "shape"}
    curve = Curve(shape=shape, **numbers)
    _check_curve(name, curve)
    return curve


def _check_curve(name: str, curve: Curve) -> None:
    for key, position in (("from", curve.begin), ("to", curve.finish), ("warmup", curve.warmup)):
        if position < 0:
            raise ValueError(f"{name}'s {key}={position:g} must not be negative.")
    if _same_unit(curve.begin, curve.finish) and curve.finish <= curve.begin:
        raise ValueError(f"{name} ends (to={curve.finish:g}) before it starts to change (from={curve.begin:g}).")
    if curve.shape == "exponential" and curve.start * curve.end <= 0:
        raise ValueError(
            f"{name} can't go exponentially from {curve.start:g} to {curve.end:g}: both must have the same sign and "
            "not be 0. Set a small end, or another shape."
        )


def _from_points(name: str, raw: Sequence[Any]) -> Points:
    if not raw or any(not isinstance(point, Sequence) or len(point) != 2 for point in raw):
        raise ValueError(f"{name}={list(raw)!r} must be points [position, value], such as [[0, 0.1], [1, 0.001]].")
    points = [(_number(name, position), _number(name, value)) for position, value in raw]
    for (before, _), (after, _) in pairwise(points):
        if _same_unit(before, after) and after <= before:
            raise ValueError(f"{name}'s points must be in order: {after:g} comes after {before:g}.")
    if points[0][0] < 0:
        raise ValueError(f"{name}'s first point is at {points[0][0]:g}, before training starts.")
    return Points(points)


def _same_unit(one: float, other: float) -> bool:
    """Fractions and timesteps can only be compared when training's length is known. 0 is both."""
    return 0 in (one, other) or (one <= 1) == (other <= 1)


def _number(name: str, raw: Any) -> float:
    value = read_number(name, raw)
    if not math.isfinite(value) and not (name == "max_grad_norm" and value > 0):  # infinite: no clipping
        raise ValueError(f"{name}={raw!r} must be a finite number.")
    return value
