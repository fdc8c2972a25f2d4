"""What the parameters of a randomised environment are drawn from. In a config:

9.8                                                    a constant
{uniform: [-12, -4]}                                   uniform between two numbers
{log_uniform: [0.1, 10]}                               every order of magnitude is equally likely
{normal: [9.8, 0.5], clip: [8, 12]}                    mean and standard deviation; clip is optional
{choice: [euler, semi-implicit], weights: [3, 1]}      one of several values; weights are optional
{schedule: {from: -10, to: {uniform: [-12, -4]}}}      from one to the other over training, or over a part of it
                                                       with over: [0.2, 0.8]
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, dataclass
from typing import Any, NamedTuple

import numpy as np

from sb3_ext.common.arguments import read_number
from sb3_ext.common.names import nearest

__all__ = ["Distribution", "Range", "parse_distribution"]

_FORMS = (
    "a number, {uniform: [low, high]}, {log_uniform: [low, high]}, {normal: [mean, std], clip: [low, high]}, "
    "{choice: [...], weights: [...]} or {schedule: {from: ..., to: ..., over: [0, 1]}}"
)


class Range(NamedTuple):
    """The values that make sense for a parameter."""

    low: float = -math.inf
    high: float = math.inf
    above: bool = False

    def check(self, name: str, *values: Any, hint: str = "") -> None:
        for value in values:
            known = isinstance(value, (int, float, np.number)) and not isinstance(value, bool)
            if not known or not (self.low < value if self.above else self.low <= value) or not value <= self.high:
                raise ValueError(f"{name} can't be {_text(value)}: it must be {self}.{hint}")

    def __str__(self) -> str:
        limits = [f"{'above' if self.above else 'at least'} {self.low:g}"] if math.isfinite(self.low) else []
        limits += [f"at most {self.high:g}"] if math.isfinite(self.high) else []
        return " and ".join(limits) or "a number"


class Distribution:
    """Its ``repr`` is its form in a config."""

    def sample(self, generator: np.random.Generator) -> Any:
        raise NotImplementedError

    def bounds(self) -> tuple[Any, ...]:
        """All samples are between the lowest and the highest of these."""
        raise NotImplementedError

    def at(self, progress: float) -> Distribution:
        """The distribution at this progress of training, from 0 to 1."""
        return self

    def check(self, name: str, allowed: Range) -> None:
        """:raises ValueError: if a sample may be outside the allowed range"""
        allowed.check(name, *self.bounds())


@dataclass(frozen=True, repr=False)
class Fixed(Distribution):
    value: float

    def sample(self, generator: np.random.Generator) -> float:
        return self.value

    def bounds(self) -> tuple[float]:
        return (self.value,)

    def __repr__(self) -> str:
        return _text(self.value)


@dataclass(frozen=True, repr=False)
class Uniform(Distribution):
    low: float
    high: float

    def sample(self, generator: np.random.Generator) -> float:
        return float(generator.uniform(self.low, self.high))

    def bounds(self) -> tuple[float, float]:
        return self.low, self.high

    def __repr__(self) -> str:
        return f"{{uniform: {_text([self.low, self.high])}}}"


class LogUniform(Uniform):
    """Uniform in the logarithm: between 0.1 and 1 is as likely as between 1 and 10."""

    def sample(self, generator: np.random.Generator) -> float:
        value = math.exp(generator.uniform(math.log(self.low), math.log(self.high)))
        return min(max(value, self.low), self.high)  # rounding may leave the bounds

    def __repr__(self) -> str:
        return f"{{log_uniform: {_text([self.low, self.high])}}}"


@dataclass(frozen=True, repr=False)
class Normal(Distribution):
    mean: float
    std: float
    clip: tuple[float, float] | None = None

    def sample(self, generator: np.random.Generator) -> float:
        value = float(generator.normal(self.mean, self.std))
        return value if self.clip is None else min(max(value, self.clip[0]), self.clip[1])

    def bounds(self) -> tuple[float, float]:
        if self.clip is not None:
            return self.clip
        return (self.mean, self.mean) if self.std == 0 else (-math.inf, math.inf)

    def check(self, name: str, allowed: Range) -> None:
        missing = self.clip is None and self.std > 0
        allowed.check(name, *self.bounds(), hint=f" Add clip: [low, high] to {self}." if missing else "")

    def __repr__(self) -> str:
        clip = "" if self.clip is None else f", clip: {_text(self.clip)}"
        return f"{{normal: {_text([self.mean, self.std])}{clip}}}"


@dataclass(frozen=True, repr=False)
class Choice(Distribution):
    values: tuple[Any, ...]
    weights: tuple[float, ...] | None = None

    def sample(self, generator: np.random.Generator) -> Any:
        weights = None if self.weights is None else np.divide(self.weights, sum(self.weights))
        return self.values[int(generator.choice(len(self.values), p=weights))]

    def bounds(self) -> tuple[Any, ...]:
        return self.values

    def __repr__(self) -> str:
        weights = "" if self.weights is None else f", weights: {_text(self.weights)}"
        return f"{{choice: {_text(self.values)}{weights}}}"


@dataclass(frozen=True, repr=False)
class Scheduled(Distribution):
    """
    Changes linearly from one distribution to another of the same kind during training. Samples are drawn from what
    :meth:`at` returns.

    :param over: the part of training in which it changes
    """

    start: Distribution
    end: Distribution
    over: tuple[float, float] = (0.0, 1.0)

    def at(self, progress: float) -> Distribution:
        begin, finish = self.over
        share = min(max((progress - begin) / (finish - begin), 0.0), 1.0)
        return _mixed(_like(self.end, self.start), _like(self.start, self.end), share)

    def check(self, name: str, allowed: Range) -> None:
        self.start.check(name, allowed)
        self.end.check(name, allowed)

    def __repr__(self) -> str:
        over = "" if self.over == (0.0, 1.0) else f", over: {_text(self.over)}"
        return f"{{schedule: {{from: {self.start}, to: {self.end}{over}}}}}"


def _like(other: Distribution, one: Distribution) -> Distribution:
    """``one``; if it is a constant, a distribution of the other's kind without any width."""
    if not isinstance(one, Fixed) or isinstance(other, Fixed):
        return one
    if isinstance(other, Normal):
        return Normal(one.value, 0.0, other.clip)
    return type(other)(one.value, one.value)  # type: ignore[call-arg]


def _mixed(start: Any, end: Any, share: float) -> Distribution:
    def between(first: Any, last: Any) -> Any:
        if isinstance(last, tuple):
            return tuple(map(between, first, last))
        return last if share >= 1 or last is None else first + share * (last - first)

    return type(end)(*map(between, astuple(start), astuple(end)))


def _text(value: Any) -> str:
    """A number, a string or a list of them in YAML."""
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(_text(part) for part in value)}]"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        short = f"{value:g}"
        return short if float(short) == value else repr(value)
    return str(value)


def parse_distribution(name: str, raw: Any) -> Distribution:
    """Read the form in a config; a distribution is returned unchanged. Errors start with the name."""
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


def _parse_log_uniform(name: str, raw: Any, _: Any) -> LogUniform:
    low, high = _pair(name, raw)
    if low <= 0:
        raise ValueError(f"{name}: {_text([low, high])} must be above 0.")
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
        raise ValueError(f"{name}'s weights: {_text(numbers)} must not be negative, nor all 0.")
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
            f"{name}'s over: {_text(over)} must be two shares of training, from 0 to 1, the lower one first."
        )
    _check_same_kind(name, start, end)
    return Scheduled(start, end, over)


def _check_same_kind(name: str, start: Distribution, end: Distribution) -> None:
    pair = _like(end, start), _like(start, end)
    if type(pair[0]) is not type(pair[1]) or isinstance(start, (Choice, Scheduled)) or isinstance(end, Choice):
        raise ValueError(
            f"{name} can't go from {start} to {end}: both must be uniform, log_uniform or normal, or one a number."
        )
    for one in pair:
        if isinstance(one, LogUniform) and one.low <= 0:
            raise ValueError(f"{name} can't go from {start} to {end}: {one.low:g} has no logarithm.")
        if isinstance(one, Normal) and one.clip is not None and not one.clip[0] <= one.mean <= one.clip[1]:
            raise ValueError(f"{name} can't go from {start} to {end}: {one.mean:g} is outside of {_text(one.clip)}.")
    if isinstance(start, Normal) and isinstance(end, Normal) and (start.clip is None) != (end.clip is None):
        raise ValueError(f"{name} can't go from {start} to {end}: set clip for both of them or for none.")


#: How each kind is read, and the name of its option
_KINDS: dict[str, tuple[Callable[[str, Any, Any], Distribution], str]] = {
    "uniform": (lambda name, raw, _: Uniform(*_pair(name, raw)), ""),
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
        raise ValueError(f"{name}: {_text([first, second])} must have the lower number first.")
    return first, second


def _number(name: str, raw: Any) -> float:
    value = math.nan if isinstance(raw, bool) else read_number(name, raw)
    if not math.isfinite(value):
        raise ValueError(f"{name}={raw!r} must be a finite number.")
    return value
