"""Reads distributions from a config."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sb3_ext.common.arguments import read_number
from sb3_ext.common.names import nearest
from sb3_ext.wrappers.randomization.distributions import (
    Choice,
    Distribution,
    Fixed,
    LogUniform,
    Normal,
    Scheduled,
    Uniform,
    like,
    text,
)

__all__ = ["parse_distribution"]

_FORMS = (
    "a number, {uniform: [low, high]}, {log_uniform: [low, high]}, {normal: [mean, std], clip: [low, high]}, "
    "{choice: [...], weights: [...]} or {schedule: {from: ..., to: ..., over: [0, 1]}}"
)


def parse_distribution(name: str, raw: Any) -> Distribution:
    """
    :param name: the parameter, for errors
    :param raw: see distributions.py; a distribution is returned unchanged
    """
    if isinstance(raw, Distribution):
        return raw
    if not isinstance(raw, Mapping):
        if isinstance(raw, (bool, Sequence)) and not isinstance(raw, str):
            raise ValueError(f"{name}: {raw!r} is not a distribution: use {_FORMS}.")
        return Fixed(_number(name, raw))
    kinds = [key for key in raw if key in _KINDS]
    if len(kinds) != 1:
        given = next((str(key) for key in raw if key not in _KINDS), "")
        hint = f": {nearest(given, _KINDS)}" if not kinds and given else f": use {_FORMS}."
        raise ValueError(f"{name}: {dict(raw)} must have one kind of distribution{hint}")
    parse, option = _KINDS[kinds[0]]
    for key in raw:
        if key not in (kinds[0], option):
            known = [key for key in (kinds[0], option) if key]
            raise ValueError(f"{name}: {kinds[0]} has no option {key!r}: {nearest(str(key), known)}")
    return parse(f"{name}: {kinds[0]}", raw[kinds[0]], raw.get(option))


def _parse_uniform(name: str, raw: Any, _: Any) -> Uniform:
    return Uniform(*_pair(name, raw))


def _parse_log_uniform(name: str, raw: Any, _: Any) -> LogUniform:
    low, high = _pair(name, raw)
    if low <= 0:
        raise ValueError(f"{name}: {text([low, high])} must be above 0.")
    return LogUniform(low, high)


def _parse_normal(name: str, raw: Any, clip: Any) -> Normal:
    mean, std = _pair(name, raw, "[mean, std]")
    if std < 0:
        raise ValueError(f"{name}: the standard deviation {std:g} must not be negative.")
    return Normal(mean, std, None if clip is None else _pair(f"{name}'s clip", clip))


def _parse_choice(name: str, raw: Any, weights: Any) -> Choice:
    plain = isinstance(raw, Sequence) and all(isinstance(value, (bool, int, float, str)) for value in raw)
    if not plain or isinstance(raw, str) or not raw:
        raise ValueError(f"{name}: {raw!r} must be a list of numbers, strings or booleans.")
    if weights is None:
        return Choice(tuple(raw))
    if not isinstance(weights, Sequence) or isinstance(weights, str) or len(weights) != len(raw):
        raise ValueError(f"{name}'s weights: {weights!r} must be a list with one number for each of {list(raw)}.")
    numbers = tuple(_number(f"{name}'s weights", weight) for weight in weights)
    if min(numbers) < 0 or sum(numbers) == 0:
        raise ValueError(f"{name}'s weights: {text(numbers)} must not be negative, nor all 0.")
    return Choice(tuple(raw), numbers)


def _parse_schedule(name: str, raw: Any, _: Any) -> Scheduled:
    if not isinstance(raw, Mapping) or not {"from", "to"} <= set(raw):
        raise ValueError(f"{name}: {raw!r} must be {{from: ..., to: ...}}.")
    for key in raw:
        if key not in ("from", "to", "over"):
            raise ValueError(f"{name} has no key {key!r}: {nearest(str(key), ['from', 'to', 'over'])}")
    start = parse_distribution(f"{name}'s from", raw["from"])
    end = parse_distribution(f"{name}'s to", raw["to"])
    over = _pair(f"{name}'s over", raw.get("over", (0.0, 1.0)))
    if not 0 <= over[0] < over[1] <= 1:
        raise ValueError(
            f"{name}'s over: {text(over)} must be two shares of training, from 0 to 1, the lower one first."
        )
    _check_same_kind(name, start, end)
    return Scheduled(start, end, over)


def _check_same_kind(name: str, start: Distribution, end: Distribution) -> None:
    pair = like(end, start), like(start, end)
    if type(pair[0]) is not type(pair[1]) or isinstance(start, (Choice, Scheduled)) or isinstance(end, Choice):
        raise ValueError(
            f"{name} can't go from {start} to {end}: both must be uniform, log_uniform or normal, or one a number."
        )
    for one in pair:
        if isinstance(one, LogUniform) and one.low <= 0:
            raise ValueError(f"{name} can't go from {start} to {end}: {one.low:g} has no logarithm.")
        if isinstance(one, Normal) and one.clip is not None and not one.clip[0] <= one.mean <= one.clip[1]:
            raise ValueError(f"{name} can't go from {start} to {end}: {one.mean:g} is outside of {text(one.clip)}.")
    if isinstance(start, Normal) and isinstance(end, Normal) and (start.clip is None) != (end.clip is None):
        raise ValueError(f"{name} can't go from {start} to {end}: set clip for both of them or for none.")


#: How each kind is read, and the name of its option
_KINDS: dict[str, tuple[Callable[[str, Any, Any], Distribution], str]] = {
    "uniform": (_parse_uniform, ""),
    "log_uniform": (_parse_log_uniform, ""),
    "normal": (_parse_normal, "clip"),
    "choice": (_parse_choice, "weights"),
    "schedule": (_parse_schedule, ""),
}


def _pair(name: str, raw: Any, form: str = "[low, high]") -> tuple[float, float]:
    if not isinstance(raw, Sequence) or isinstance(raw, str) or len(raw) != 2:
        raise ValueError(f"{name}: {raw!r} must be two numbers {form}.")
    first, second = (_number(name, value) for value in raw)
    if form == "[low, high]" and first > second:
        raise ValueError(f"{name}: {text([first, second])} must have the lower number first.")
    return first, second


def _number(name: str, raw: Any) -> float:
    value = math.nan if isinstance(raw, bool) else read_number(name, raw)
    if not math.isfinite(value):
        raise ValueError(f"{name}={raw!r} must be a finite number.")
    return value
