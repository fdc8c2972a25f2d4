"""What a rule is: its metrics, when it fires, and what to tune."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Literal, NamedTuple

from sb3_ext.callbacks.alerts.context import RuleContext

__all__ = ["COMMON_NUMBERS", "ActiveRule", "Check", "Finding", "Rule", "Severity", "Variant", "above", "below"]

#: The run is broken, it probably goes wrong, it could be better
Severity = Literal["error", "warning", "hint"]

#: Numbers of every rule and their defaults: rows to look at, fraction of them that must be bad, fraction of the
#: training that they must cover, rows to ignore at the start, and the part of the training in which it is checked
COMMON_NUMBERS: Mapping[str, float] = {
    "window": 1,
    "share": 1.0,
    "span": 0.0,
    "warmup": 0,
    "after": 0.0,
    "until": 1.0,
}


class Finding(NamedTuple):
    """What a rule with several metrics found."""

    metric: str
    text: str
    advice: str = ""


#: Gets the context and the rule's numbers, and returns whether the row is bad; ``None`` if that can't be said
Check = Callable[[RuleContext, SimpleNamespace], bool | Finding | None]


def above(context: RuleContext, params: SimpleNamespace) -> bool:
    """A check for rules with a ``threshold`` and nothing else."""
    return context.value > params.threshold


def below(context: RuleContext, params: SimpleNamespace) -> bool:
    return context.value < params.threshold


@dataclass(frozen=True)
class Variant:
    """What differs for an algorithm."""

    advice: str = ""
    numbers: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Rule:
    """
    :param id: as in ``alert/<id>``
    :param metrics: the rule is checked in rows with one of these, and shown at the first one; empty: in all rows
    :param title: what is wrong, in a few words
    :param advice: what to tune
    :param check: says whether a row is bad
    :param numbers: its thresholds, and changes of :data:`COMMON_NUMBERS`
    :param severity: how bad it is
    :param algorithms: only for these, see ``RuleFacts.algorithms``; empty: for all
    :param variants: what differs for some algorithms; the first match counts
    """

    id: str
    metrics: tuple[str, ...]
    title: str
    advice: str
    check: Check
    numbers: Mapping[str, float] = field(default_factory=dict)
    severity: Severity = "warning"
    algorithms: tuple[str, ...] = ()
    variants: Mapping[str, Variant] = field(default_factory=dict)

    @property
    def all_numbers(self) -> dict[str, float]:
        """All numbers that can be set, with their defaults."""
        return {**COMMON_NUMBERS, **self.numbers}

    def applies_to(self, algorithms: Collection[str]) -> bool:
        return not self.algorithms or any(name in algorithms for name in self.algorithms)

    def for_run(self, algorithms: Collection[str], changes: Mapping[str, float]) -> ActiveRule:
        variant = next((found for name, found in self.variants.items() if name in algorithms), Variant())
        numbers = {**self.all_numbers, **variant.numbers, **changes}
        return ActiveRule(self, SimpleNamespace(**numbers), variant.advice or self.advice)


@dataclass(frozen=True)
class ActiveRule:
    """A rule with its numbers and advice for one run."""

    rule: Rule
    numbers: SimpleNamespace
    advice: str
