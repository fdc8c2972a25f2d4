"""The registry of alerts: every rule by its id."""

from __future__ import annotations

from sb3_ext.callbacks.alerts.rule import Rule, Variant
from sb3_ext.callbacks.alerts.rules.environment import RULES as ENVIRONMENT
from sb3_ext.callbacks.alerts.rules.gradients import RULES as GRADIENTS
from sb3_ext.callbacks.alerts.rules.learning import RULES as LEARNING
from sb3_ext.callbacks.alerts.rules.numbers import RULES as NUMBERS
from sb3_ext.callbacks.alerts.rules.policy import RULES as POLICY
from sb3_ext.callbacks.alerts.rules.speed import RULES as SPEED
from sb3_ext.callbacks.alerts.rules.values import RULES as VALUES

__all__ = ["RULES", "Rule", "Variant", "metric_of", "show_at"]

#: All rules, sorted by their ids
RULES: dict[str, Rule] = {
    rule.id: rule
    for rule in sorted(
        (*ENVIRONMENT, *GRADIENTS, *LEARNING, *NUMBERS, *POLICY, *SPEED, *VALUES), key=lambda rule: rule.id
    )
}
#: Where alerts were shown last: rules that look at many metrics, and those that users add, are known only then
_SHOWN_AT: dict[str, str] = {}


def metric_of(alert_id: str) -> str | None:
    """
    :param alert_id: id of a rule, with or without ``alert/`` before it
    :return: the metric that it is shown at in a table; ``None`` when it is not known
    """
    alert_id = alert_id.removeprefix("alert/")
    if alert_id in _SHOWN_AT:
        return _SHOWN_AT[alert_id]
    rule = RULES.get(alert_id)
    return rule.metrics[0] if rule is not None and rule.metrics else None


def show_at(alert_id: str, metric: str) -> None:
    """
    :param alert_id: id of a rule that fires
    :param metric: the metric that it is about this time
    """
    _SHOWN_AT[alert_id] = metric
