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
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

__all__ = ["Choice", "Distribution", "Fixed", "LogUniform", "Normal", "Range", "Scheduled", "Uniform", "like", "text"]


class Range(NamedTuple):
    """The values that make sense for a parameter."""

    low: float = -math.inf
    high: float = math.inf
    above: bool = False

    def check(self, name: str, low: Any, high: Any, hint: str = "") -> None:
        for value in (low, high):
            known = isinstance(value, (int, float, np.number)) and not isinstance(value, bool)
            if not known or not (self.low < value if self.above else self.low <= value) or not value <= self.high:
                raise ValueError(f"{name} can't be {text(value)}: it must be {self}.{hint}")

    def __str__(self) -> str:
        limits = [f"{'above' if self.above else 'at least'} {self.low:g}"] if math.isfinite(self.low) else []
        limits += [f"at most {self.high:g}"] if math.isfinite(self.high) else []
        return " and ".join(limits) or "a number"


class Distribution(ABC):
    """Its ``repr`` is its form in a config."""

    @abstractmethod
    def sample(self, generator: np.random.Generator) -> Any: ...

    @abstractmethod
    def bounds(self) -> tuple[Any, Any]:
        """The lowest and the highest possible sample."""

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

    def bounds(self) -> tuple[float, float]:
        return self.value, self.value

    def __repr__(self) -> str:
        return text(self.value)


@dataclass(frozen=True, repr=False)
class Uniform(Distribution):
    low: float
    high: float

    def sample(self, generator: np.random.Generator) -> float:
        return float(generator.uniform(self.low, self.high))

    def bounds(self) -> tuple[float, float]:
        return self.low, self.high

    def __repr__(self) -> str:
        return f"{{uniform: {text([self.low, self.high])}}}"


class LogUniform(Uniform):
    """Uniform in the logarithm: between 0.1 and 1 is as likely as between 1 and 10."""

    def sample(self, generator: np.random.Generator) -> float:
        value = math.exp(generator.uniform(math.log(self.low), math.log(self.high)))
        return min(max(value, self.low), self.high)  # rounding may leave the bounds

    def __repr__(self) -> str:
        return f"{{log_uniform: {text([self.low, self.high])}}}"


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
        clip = "" if self.clip is None else f", clip: {text(self.clip)}"
        return f"{{normal: {text([self.mean, self.std])}{clip}}}"


@dataclass(frozen=True, repr=False)
class Choice(Distribution):
    values: tuple[Any, ...]
    weights: tuple[float, ...] | None = None

    def sample(self, generator: np.random.Generator) -> Any:
        weights = None if self.weights is None else np.divide(self.weights, sum(self.weights))
        return self.values[int(generator.choice(len(self.values), p=weights))]

    def bounds(self) -> tuple[Any, Any]:
        try:
            return min(self.values), max(self.values)
        except TypeError:
            texts = [value for value in self.values if isinstance(value, str)]
            return texts[0], texts[0]

    def __repr__(self) -> str:
        weights = "" if self.weights is None else f", weights: {text(self.weights)}"
        return f"{{choice: {text(self.values)}{weights}}}"


@dataclass(frozen=True, repr=False)
class Scheduled(Distribution):
    """
    Changes linearly from one distribution to another of the same kind during training.

    :param end: samples are drawn from it unless ``at()`` is used
    :param over: the part of training in which it changes
    """

    start: Distribution
    end: Distribution
    over: tuple[float, float] = (0.0, 1.0)

    def at(self, progress: float) -> Distribution:
        begin, finish = self.over
        share = min(max((progress - begin) / (finish - begin), 0.0), 1.0)
        return _mixed(like(self.end, self.start), like(self.start, self.end), share)

    def sample(self, generator: np.random.Generator) -> Any:
        return self.end.sample(generator)

    def bounds(self) -> tuple[float, float]:
        lows, highs = zip(self.start.bounds(), self.end.bounds(), strict=True)
        return min(lows), max(highs)

    def check(self, name: str, allowed: Range) -> None:
        self.start.check(name, allowed)
        self.end.check(name, allowed)

    def __repr__(self) -> str:
        over = "" if self.over == (0.0, 1.0) else f", over: {text(self.over)}"
        return f"{{schedule: {{from: {self.start}, to: {self.end}{over}}}}}"


def like(other: Distribution, one: Distribution) -> Distribution:
    """``one``; if it is a constant, a distribution of the other's kind without any width."""
    if not isinstance(one, Fixed) or isinstance(other, Fixed):
        return one
    if isinstance(other, Normal):
        return Normal(one.value, 0.0, other.clip)
    return type(other)(one.value, one.value)  # type: ignore[call-arg]


def _mixed(start: Any, end: Any, share: float) -> Distribution:
    def between(first: float, last: float) -> float:
        return last if share >= 1 else first + share * (last - first)

    if isinstance(end, Fixed):
        return Fixed(between(start.value, end.value))
    if isinstance(end, Normal):
        clip = None if end.clip is None else (between(start.clip[0], end.clip[0]), between(start.clip[1], end.clip[1]))
        return Normal(between(start.mean, end.mean), between(start.std, end.std), clip)
    return type(end)(between(start.low, end.low), between(start.high, end.high))


def text(value: Any) -> str:
    """A number, a string or a list of them in YAML."""
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(text(part) for part in value)}]"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        short = f"{value:g}"
        return short if float(short) == value else repr(value)
    return str(value)
