"""What a rule of alerts is: what it looks at, when it fires, and what to tune then."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Literal, NamedTuple

from sb3_ext.callbacks.alerts.context import Look

__all__ = ["COMMON_NUMBERS", "ActiveRule", "Check", "Finding", "Rule", "Severity", "Variant"]

#: How bad it is: the run is broken, it probably goes wrong, it could go better
Severity = Literal["error", "warning", "hint"]

#: Numbers that every rule has, with what they are when it says nothing else: how many rows are looked at, the share of
#: them that must be bad, the share of the training that they must cover, rows at the start that don't count, and the
#: part of the training in which the rule is judged
COMMON_NUMBERS: Mapping[str, float] = {
    "window": 1,
    "share": 1.0,
    "span": 0.0,
    "warmup": 0,
    "after": 0.0,
    "until": 1.0,
}


class Finding(NamedTuple):
    """
    What a rule found that looks at many metrics.

    :param metric: where
    :param text: what
    :param advice: what to tune, where that is not what the rule says
    """

    metric: str
    text: str
    advice: str = ""


#: Is given what there is to see and the rule's numbers. Says whether the row is bad, or ``None`` where that can't be
#: judged
Check = Callable[[Look, SimpleNamespace], bool | Finding | None]


@dataclass(frozen=True)
class Variant:
    """
    What is different for an algorithm.

    :param advice: what to tune; empty: as for the others
    :param numbers: those of the rule that differ
    """

    advice: str = ""
    numbers: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Rule:
    """
    :param id: its name in ``alert/<id>``
    :param metrics: it is judged at rows that have one of these, and shown at the first that the row has; none: at all
        rows
    :param title: what is wrong, in a few words
    :param advice: what to tune
    :param check: says whether a row is bad
    :param numbers: its thresholds, and what of :data:`COMMON_NUMBERS` is different
    :param severity: one of :data:`Severity`
    :param algorithms: only for these, see ``RuleFacts.algorithms``; none: for all
    :param variants: what is different for some algorithms; the first that fits is taken
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
        """Those that it can be tightened with, and their defaults."""
        return {**COMMON_NUMBERS, **self.numbers}

    def applies_to(self, algorithms: Collection[str]) -> bool:
        """
        :param algorithms: of the run
        """
        return not self.algorithms or any(name in algorithms for name in self.algorithms)

    def for_run(self, algorithms: Collection[str], changes: Mapping[str, float]) -> ActiveRule:
        """
        :param algorithms: of the run
        :param changes: numbers that the user wants
        """
        variant = next((found for name, found in self.variants.items() if name in algorithms), Variant())
        numbers = {**self.all_numbers, **variant.numbers, **changes}
        return ActiveRule(self, SimpleNamespace(**numbers), variant.advice or self.advice)


@dataclass(frozen=True)
class ActiveRule:
    """
    A rule as it is for one run.

    :param rule: the rule
    :param numbers: its numbers
    :param advice: what to tune
    """

    rule: Rule
    numbers: SimpleNamespace
    advice: str
