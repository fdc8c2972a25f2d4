"""The registry of alerts: every rule by its id."""

from sb3_ext.callbacks.alerts.rule import Rule, Variant
from sb3_ext.callbacks.alerts.rules.environment import RULES as ENVIRONMENT
from sb3_ext.callbacks.alerts.rules.gradients import RULES as GRADIENTS
from sb3_ext.callbacks.alerts.rules.learning import RULES as LEARNING
from sb3_ext.callbacks.alerts.rules.numbers import RULES as NUMBERS
from sb3_ext.callbacks.alerts.rules.policy import RULES as POLICY
from sb3_ext.callbacks.alerts.rules.values import RULES as VALUES

__all__ = ["RULES", "Rule", "Variant"]

_ALL = (*ENVIRONMENT, *GRADIENTS, *LEARNING, *NUMBERS, *POLICY, *VALUES)
RULES: dict[str, Rule] = {rule.id: rule for rule in sorted(_ALL, key=lambda rule: rule.id)}
