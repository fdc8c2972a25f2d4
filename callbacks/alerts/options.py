"""Which rules of alerts are silent, which have other numbers, and which are new:

alerts:
  silence: [fps_drop]
  set:
    kl_high: {threshold: 0.05, window: 5}
  add:
    long_episodes: {metric: rollout/ep_len_mean, above: 400, window: 10, advice: "Raise the step penalty."}
  on_nan: raise                        # or warn
"""

from __future__ import annotations

import math
import re
from types import SimpleNamespace
from typing import Annotated, ClassVar, Literal

from pydantic import ConfigDict, Field, model_validator

from sb3_ext.callbacks.alerts.context import RuleContext
from sb3_ext.callbacks.alerts.rule import Rule, Severity
from sb3_ext.callbacks.alerts.rules import RULES
from sb3_ext.callbacks.base import ScoreOptions
from sb3_ext.common.names import nearest
from sb3_ext.common.options import Count, Fraction, Integer, MappingOf, Number, Options, Strings, Text

__all__ = ["AddedRule", "AlertsOptions", "RuleNumbers"]


class RuleNumbers(Options):
    """Numbers of a rule that are changed: those that every rule has, see ``rule.COMMON_NUMBERS``, and its own."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, Number] = Field(init=False)

    window: Count | None = None
    share: Fraction | None = None
    span: Fraction | None = None
    warmup: Annotated[Integer, Field(ge=0)] | None = None
    after: Fraction | None = None
    until: Fraction | None = None


class AddedRule(RuleNumbers):
    """A rule of the user, which fires when a metric is beyond a limit."""

    model_config = ConfigDict(extra="forbid")

    metric: Text
    above: Number | None = None
    below: Number | None = None
    advice: str = ""
    severity: Severity = "warning"

    @model_validator(mode="after")
    def _check(self) -> AddedRule:
        if self.above is None and self.below is None:
            raise ValueError("it needs above or below, or it can't fire")
        return self

    def make_rule(self, rule_id: str) -> Rule:
        numbers = self.model_dump(exclude_none=True, exclude={"metric", "advice", "severity"})
        limits = " or ".join(f"{name} {numbers[name]:g}" for name in ("above", "below") if name in numbers)
        return Rule(rule_id, (self.metric,), f"{self.metric} is {limits}", self.advice, _beyond, numbers, self.severity)


def _beyond(context: RuleContext, params: SimpleNamespace) -> bool | None:
    if math.isnan(context.value):
        return None
    return context.value > getattr(params, "above", math.inf) or context.value < getattr(params, "below", -math.inf)


class AlertsOptions(ScoreOptions):
    """
    :param silence: ids of rules that are not checked
    :param set: numbers of rules to change, such as ``{"kl_high": {"threshold": 0.05}}``
    :param add: rules of your own, such as ``{"long": {"metric": "rollout/ep_len_mean", "above": 400, "window": 10}}``
    :param on_nan: ``"raise"`` ends the training with :class:`TrainingDiverged` when the policy, observations or
        rewards are NaN or infinite; ``"warn"`` only reports it
    :param threshold: see :class:`ScoreOptions`
    """

    callback: ClassVar[str] = "sb3_ext.callbacks.alerts.Alerts"

    silence: Strings = ()
    set: MappingOf[RuleNumbers] = Field(default_factory=dict)
    add: MappingOf[AddedRule] = Field(default_factory=dict)
    on_nan: Literal["raise", "warn"] = "raise"

    @model_validator(mode="after")
    def _check_ids(self) -> AlertsOptions:
        for rule_id in self.add:
            if not re.fullmatch(r"[a-z0-9][a-z0-9_-]*", rule_id):
                raise ValueError(f"add: {rule_id}: an id consists of small letters, digits, _ and -")
            if rule_id in RULES or rule_id == "total":
                raise ValueError(f"add: {rule_id}: there is a rule of this name already; set changes its numbers")
        known = self._known
        for rule_id in (*self.silence, *self.set):
            if rule_id not in known:
                raise ValueError(f"there is no alert {rule_id!r}: {nearest(rule_id, known)}")
        for rule_id, numbers in self.set.items():
            for name in numbers.model_extra or ():
                if name not in known[rule_id].all_numbers:
                    allowed = nearest(name, known[rule_id].all_numbers)
                    raise ValueError(f"set: {rule_id} has no number {name!r}: {allowed}")
        return self

    @property
    def added(self) -> list[Rule]:
        return [rule.make_rule(rule_id) for rule_id, rule in self.add.items()]

    @property
    def _known(self) -> dict[str, Rule]:
        return {**RULES, **{rule.id: rule for rule in self.added}}

    @property
    def rules(self) -> list[Rule]:
        """The rules that are checked, sorted by id."""
        return [rule for rule_id, rule in sorted(self._known.items()) if rule_id not in self.silence]

    @property
    def changes(self) -> dict[str, dict[str, float]]:
        """Numbers of rules that are changed, by id."""
        return {rule_id: numbers.model_dump(exclude_none=True) for rule_id, numbers in self.set.items()}
