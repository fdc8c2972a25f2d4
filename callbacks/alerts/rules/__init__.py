"""The registry of alerts: every rule by its id."""

from sb3_ext.callbacks.alerts.rule import Rule, Variant
from sb3_ext.callbacks.alerts.rules.environment import RULES as ENVIRONMENT
from sb3_ext.callbacks.alerts.rules.gradients import RULES as GRADIENTS
from sb3_ext.callbacks.alerts.rules.learning import RULES as LEARNING
from sb3_ext.callbacks.alerts.rules.numbers import RULES as NUMBERS
from sb3_ext.callbacks.alerts.rules.policy import RULES as POLICY
from sb3_ext.callbacks.alerts.rules.speed import RULES as SPEED
from sb3_ext.callbacks.alerts.rules.values import RULES as VALUES

__all__ = ["RULES", "Rule", "Variant"]

#: All rules, sorted by their ids
RULES: dict[str, Rule] = {
    rule.id: rule
    for rule in sorted(
        (*ENVIRONMENT, *GRADIENTS, *LEARNING, *NUMBERS, *POLICY, *SPEED, *VALUES), key=lambda rule: rule.id
    )
}
