"""Checks rows of metrics with rules, and counts what they find."""

import math
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple

from sb3_ext.callbacks.alerts.context import RuleContext, RuleFacts
from sb3_ext.callbacks.alerts.rule import ActiveRule, Finding, Rule, Severity
from sb3_ext.common.stateful import Stateful
from sb3_ext.runs.rows import Guard

__all__ = ["Alert", "AlertCount", "FiringWindow", "RuleEngine"]

#: Maximum number of rows in a window
_MAX_ROWS = 2048


class FiringWindow(Stateful):
    """The latest verdicts of a rule, see ``rule.COMMON_NUMBERS``."""

    state_names: ClassVar[tuple[str, ...]] = ("_verdicts", "_n_bad", "_started")

    def __init__(self, rows: int = 1, span: float = 0.0, share: float = 1.0) -> None:
        self._rows, self._span, self._share = max(int(rows), 1), span, share
        self._verdicts: deque[tuple[float, bool]] = deque()
        self._n_bad = 0
        self._started: float | None = None

    def add(self, progress: float, is_bad: bool) -> bool:
        """Add the verdict on a row. Returns whether it is bad, and enough of the previous ones are."""
        if self._started is None:
            self._started = progress
        verdicts = self._verdicts
        verdicts.append((progress, is_bad))
        self._n_bad += is_bad
        # Two rows can have the same step
        oldest = progress - self._span if self._span > 0 else math.inf
        while len(verdicts) > _MAX_ROWS or (len(verdicts) > self._rows and verdicts[0][0] < oldest):
            self._n_bad -= verdicts.popleft()[1]
        is_full = len(verdicts) >= self._rows and progress - self._started >= self._span
        return is_bad and is_full and self._n_bad >= self._share * len(verdicts)

    def rescale(self, factor: float) -> None:
        """Multiply the progress so far, after the length of the training was changed."""
        for _ in range(len(self._verdicts)):
            progress, is_bad = self._verdicts.popleft()
            self._verdicts.append((progress * factor, is_bad))
        self._started = None if self._started is None else self._started * factor


class Alert(NamedTuple):
    """A rule that fired in a row."""

    id: str
    metric: str
    title: str
    text: str
    advice: str
    severity: Severity


@dataclass
class AlertCount(Stateful):
    """
    How often a rule fired.

    :param id: id of the rule
    :param metric: where the alert is shown
    :param count: rows in which it fired
    :param share: fraction of the rows in which it was checked
    :param first_step: timesteps when it first fired
    :param last_step: timesteps when it last fired
    :param advice: what to tune
    """

    state_names: ClassVar[tuple[str, ...]] = ("metric", "count", "share", "first_step", "last_step", "advice")

    id: str
    metric: str = ""
    count: int = 0
    share: float = 0.0
    first_step: int = 0
    last_step: int = 0
    advice: str = ""


class _RuleState(Stateful):
    """A rule and its memory of a training."""

    state_names: ClassVar[tuple[str, ...]] = ("window", "memory", "count", "n_checked")

    def __init__(self, active: ActiveRule) -> None:
        numbers = active.numbers
        self.active = active
        self.window = FiringWindow(numbers.window, numbers.span, numbers.share)
        self.memory: dict[str, Any] = {}
        self.count = AlertCount(active.rule.id, advice=active.advice)
        self.n_checked = 0


class RuleEngine(Stateful):
    """Checks the rules that apply to a run. ``changes`` has the user's numbers by id of the rule."""

    state_names: ClassVar[tuple[str, ...]] = ("_states", "context")

    def __init__(
        self, rules: Iterable[Rule], facts: RuleFacts, changes: Mapping[str, Mapping[str, float]] = MappingProxyType({})
    ) -> None:
        applying = (rule for rule in rules if rule.applies_to(facts.algorithms))
        self._states = {
            rule.id: _RuleState(rule.for_run(facts.algorithms, changes.get(rule.id, {}))) for rule in applying
        }
        self.counts = {rule_id: state.count for rule_id, state in self._states.items()}
        self.context = RuleContext(facts)
        self._guard = Guard("Alert")
        #: Ids of the rules checked in the last row
        self.checked: list[str] = []

    def rescale(self, factor: float) -> None:
        """Multiply the progress so far, after the length of the training was changed."""
        self.context.score.rescale(factor)
        for state in self._states.values():
            state.window.rescale(factor)

    @property
    def active(self) -> list[ActiveRule]:
        """The rules that apply to the run, with their numbers and advice."""
        return [state.active for state in self._states.values()]

    def check(self, step: int, row: Mapping[str, float]) -> list[Alert]:
        """Check a row, and return the alerts that fired."""
        context = self.context
        context.enter(step, row)
        self.checked = []
        alerts = []
        for state in self._states.values():
            metrics = state.active.rule.metrics
            metric = next(filter(row.__contains__, metrics), "")
            if not metric and metrics:
                continue
            if metric and (context.faults or row[metric] != row[metric]):
                continue  # NaN is reported by its own rule
            alert = self._apply(state, metric)
            if alert is not None:
                alerts.append(alert)
        return alerts

    def _apply(self, state: _RuleState, metric: str) -> Alert | None:
        context, active, count = self.context, state.active, state.count
        rule, numbers = active.rule, active.numbers
        if not numbers.after <= context.progress <= numbers.until:
            return None
        context.metric, context.memory = metric, state.memory
        if metric:
            context.value = context.row[metric]
        verdict = self._guard.run(rule.id, rule.check, context, numbers)
        if verdict is None:
            return None
        state.n_checked += 1
        self.checked.append(rule.id)
        fires = state.window.add(context.progress, bool(verdict) and state.n_checked > numbers.warmup)
        count.count += fires
        count.share = count.count / state.n_checked
        if not fires:
            return None
        found = verdict if isinstance(verdict, Finding) else Finding(metric, f"{metric} is {context.value:.4g}")
        if count.count == 1:
            count.first_step = context.step
        count.last_step, count.metric, count.advice = context.step, found.metric, found.advice or active.advice
        return Alert(rule.id, found.metric, rule.title, found.text, count.advice, rule.severity)
