"""Judges rows of metrics by rules, and counts what they find."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from sb3_ext.callbacks.alerts.context import Look, RuleFacts
from sb3_ext.callbacks.alerts.rule import ActiveRule, Finding, Rule
from sb3_ext.runs.guard import Guard

__all__ = ["Alert", "Judge", "Tally", "Window"]

#: Rows that a window looks at, at most
_MAX_ROWS = 2048


class Window:
    """
    The latest verdicts on rows.

    :param rows: how many are looked at, at least
    :param span: share of the training that they cover, at least
    :param share: share of them that must be bad
    """

    def __init__(self, rows: int = 1, span: float = 0.0, share: float = 1.0) -> None:
        self._rows, self._span, self._share = max(int(rows), 1), span, share
        self._verdicts: deque[tuple[float, bool]] = deque()
        self._n_bad = 0
        self._started: float | None = None

    def add(self, progress: float, is_bad: bool) -> bool:
        """
        :param progress: share of the training that is over
        :param is_bad: the verdict on a row
        :return: whether this one is bad, and enough of those before it are
        """
        if self._started is None:
            self._started = progress
        verdicts = self._verdicts
        verdicts.append((progress, is_bad))
        self._n_bad += is_bad
        # Two rows may be of the same step
        oldest = progress - self._span if self._span > 0 else math.inf
        while len(verdicts) > _MAX_ROWS or (len(verdicts) > self._rows and verdicts[0][0] < oldest):
            self._n_bad -= verdicts.popleft()[1]
        is_full = len(verdicts) >= self._rows and progress - self._started >= self._span
        return is_bad and is_full and self._n_bad >= self._share * len(verdicts)


@dataclass(frozen=True)
class Alert:
    """
    A rule that fired at a row.

    :param id: of the rule
    :param metric: that it is shown at
    :param title: what is wrong, in a few words
    :param text: what is wrong, with numbers
    :param advice: what to tune
    :param severity: how bad it is
    """

    id: str
    metric: str
    title: str
    text: str
    advice: str
    severity: str


@dataclass
class Tally:
    """
    How often a rule fired.

    :param judged: rows that it was judged at
    :param fired: rows that it fired at
    :param first_step: timesteps when it fired first
    :param last_step: timesteps when it fired last
    :param metric: that it was shown at last
    :param advice: that was given last
    """

    judged: int = 0
    fired: int = 0
    first_step: int = 0
    last_step: int = 0
    metric: str = ""
    advice: str = ""


class _Case:
    """
    A rule with what it remembers of a training.

    :param active: the rule
    """

    __slots__ = ("active", "memory", "metrics", "tally", "window")

    def __init__(self, active: ActiveRule) -> None:
        numbers = active.numbers
        self.active, self.metrics = active, active.rule.metrics
        self.window = Window(numbers.window, numbers.span, numbers.share)
        self.memory: dict[str, Any] = {}
        self.tally = Tally(advice=active.advice)


class Judge:
    """
    :param rules: by which it judges
    :param facts: about the run
    :param changes: numbers that the user wants, by id of the rule
    """

    def __init__(
        self,
        rules: Iterable[Rule],
        facts: RuleFacts,
        changes: Mapping[str, Mapping[str, float]] | None = None,
    ) -> None:
        changes = changes or {}
        applying = (rule for rule in rules if rule.applies_to(facts.algorithms))
        self._cases = [_Case(rule.for_run(facts.algorithms, changes.get(rule.id, {}))) for rule in applying]
        self.tallies = {case.active.rule.id: case.tally for case in self._cases}
        self.look = Look(facts)
        self._guard = Guard("Alert")
        #: Ids of the rules that the last row was judged by
        self.judged: list[str] = []

    @property
    def active(self) -> list[ActiveRule]:
        """The rules that apply to the run, with its numbers and advice."""
        return [case.active for case in self._cases]

    def judge(self, step: int, row: Mapping[str, float]) -> list[Alert]:
        """
        :param step: timesteps
        :param row: numbers by name
        :return: what the rules have to say
        """
        look = self.look
        look.enter(step, row)
        self.judged = []
        alerts = []
        for case in self._cases:
            metric = ""
            for metric in case.metrics:
                if metric in row:
                    break
            else:
                if case.metrics:
                    continue
            if metric and (look.faults or row[metric] != row[metric]):
                continue  # there is nothing to be said of NaN, but that it is there
            alert = self._apply(case, metric)
            if alert is not None:
                alerts.append(alert)
        return alerts

    def _apply(self, case: _Case, metric: str) -> Alert | None:
        look, active, tally = self.look, case.active, case.tally
        rule, numbers = active.rule, active.numbers
        if not numbers.after <= look.progress <= numbers.until:
            return None
        look.metric, look.memory = metric, case.memory
        if metric:
            look.value = look.row[metric]
        verdict = self._guard.run(rule.id, rule.check, look, numbers)
        if verdict is None:
            return None
        tally.judged += 1
        self.judged.append(rule.id)
        is_bad = bool(verdict) and tally.judged > numbers.warmup
        if not case.window.add(look.progress, is_bad):
            return None
        found = verdict if isinstance(verdict, Finding) else Finding(metric, f"{metric} is {look.value:.4g}")
        if tally.fired == 0:
            tally.first_step = look.step
        tally.fired += 1
        tally.last_step, tally.metric, tally.advice = look.step, found.metric, found.advice or active.advice
        return Alert(rule.id, found.metric, rule.title, found.text, tally.advice, rule.severity)
