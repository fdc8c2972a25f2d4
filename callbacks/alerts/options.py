"""Alerts as they are written in a config: which rules are silent, which are stricter, and which are new.

alerts:
  silence: [fps_drop]
  set:
    kl_high: {threshold: 0.05, window: 5}
  add:
    long_episodes: {metric: rollout/ep_len_mean, above: 400, window: 10, advice: "Raise the step penalty."}
  on_nan: raise                        # or warn
  threshold: 475                       # score from which on the environment is solved; by default its own
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from sb3_ext.callbacks.alerts.context import Look
from sb3_ext.callbacks.alerts.rule import COMMON_NUMBERS, SEVERITIES, Rule
from sb3_ext.callbacks.alerts.rules import RULES
from sb3_ext.common.names import check_choice, check_keywords, nearest
from sb3_ext.common.option_readers import may_be_none, read_choice, read_finite, read_mapping, switched

if TYPE_CHECKING:
    from sb3_ext.callbacks.alerts.callback import Alerts

__all__ = ["AlertsConfig", "read_alerts"]

ON_NAN = ("raise", "warn")
_KEYS = ("silence", "set", "add", "on_nan", "threshold")
_LIMITS = ("above", "below")
_ID = re.compile(r"[a-z0-9][a-z0-9_-]*")
#: Shares, which make no sense beyond 0 and 1
_SHARES = ("share", "span", "after", "until")


@dataclass(frozen=True)
class AlertsConfig:
    """
    :param silence: ids of rules that are not judged
    :param changes: numbers of rules that are different, by id
    :param added: rules of the user
    :param on_nan: ``raise`` ends a training whose policy, observations or rewards are not finite any more, with an
        error that says what to do; ``warn`` only tells
    :param threshold: score from which on the environment is solved; ``None``: the environment's own
    """

    silence: tuple[str, ...] = ()
    changes: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    added: tuple[Rule, ...] = ()
    on_nan: str = "raise"
    threshold: float | None = None

    @property
    def rules(self) -> list[Rule]:
        """Those that are judged, sorted by id."""
        known = {**RULES, **{rule.id: rule for rule in self.added}}
        return [known[rule_id] for rule_id in sorted(known) if rule_id not in self.silence]

    def make_callback(self, folder: str | None = None, verbose: int = 1) -> Alerts:
        """
        :param folder: the run folder, for ``alerts.json``
        :param verbose: 1 tells of alerts when they fire first, and at the end
        """
        from sb3_ext.callbacks.alerts.callback import Alerts

        return Alerts.from_config(self, folder=folder, verbose=verbose)


def read_alerts(written: Any) -> AlertsConfig | None:
    """
    :param written: what a config has under ``alerts``: ``true``, ``false``, or options
    :return: ``None`` where there are to be none
    :raises TypeError: when a key or a number of a rule is not known
    :raises ValueError: when a value is not possible, or an id is not known
    """
    written = switched(written, AlertsConfig, "alerts:", "silence: [fps_drop]")
    if not isinstance(written, dict):
        return written
    check_keywords("alerts:", written, _KEYS)
    added = _read_added(read_mapping("alerts: add", written.get("add")))
    known = {**RULES, **{rule.id: rule for rule in added}}
    on_nan = read_choice("alerts: on_nan", written.get("on_nan", "raise"), ON_NAN)
    return AlertsConfig(
        _read_silence(written.get("silence"), known),
        _read_changes(read_mapping("alerts: set", written.get("set")), known),
        added,
        on_nan,
        may_be_none(read_finite)("alerts: threshold", written.get("threshold")),
    )


def _read_silence(written: Any, known: Mapping[str, Rule]) -> tuple[str, ...]:
    if written is None:
        return ()
    ids = [written] if isinstance(written, str) else list(written)
    for rule_id in ids:
        _check_id("alerts: silence", rule_id, known)
    return tuple(ids)


def _read_changes(written: Mapping[str, Any], known: Mapping[str, Rule]) -> dict[str, dict[str, float]]:
    changes = {}
    for rule_id, numbers in written.items():
        where = f"alerts: set: {rule_id}"
        _check_id("alerts: set", rule_id, known)
        numbers = read_mapping(where, numbers)
        check_keywords(f"{where}:", numbers, known[rule_id].all_numbers)
        changes[rule_id] = {name: _read_value(f"{where}: {name}", name, value) for name, value in numbers.items()}
    return changes


def _read_added(written: Mapping[str, Any]) -> tuple[Rule, ...]:
    return tuple(_read_rule(rule_id, options) for rule_id, options in written.items())


def _read_rule(rule_id: Any, written: Any) -> Rule:
    where = f"alerts: add: {rule_id}"
    if not isinstance(rule_id, str) or not _ID.fullmatch(rule_id):
        raise ValueError(f"{where}: an id is made of small letters, digits, _ and -, such as long_episodes.")
    if rule_id in RULES or rule_id == "total":
        raise ValueError(f"{where}: there is a rule of this name already; alerts: set changes its numbers.")
    options = read_mapping(where, written)
    check_keywords(f"{where}:", options, ("metric", "advice", "severity", *_LIMITS, *COMMON_NUMBERS))
    metric = options.get("metric")
    if not isinstance(metric, str) or not metric:
        raise ValueError(f"{where}: metric: {metric!r} must be the name of a metric, such as rollout/ep_len_mean.")
    limits = [name for name in _LIMITS if name in options]
    if not limits:
        raise ValueError(f"{where}: it needs above or below, or it can't fire.")
    severity = options.get("severity", "warning")
    check_choice(f"{where}: severity", severity, SEVERITIES)
    advice = options.get("advice", "")
    if not isinstance(advice, str):
        raise ValueError(f"{where}: advice: {advice!r} must be a text.")
    numbers = {
        name: _read_value(f"{where}: {name}", name, options[name])
        for name in (*limits, *COMMON_NUMBERS)
        if name in options
    }
    title = f"{metric} is {' or '.join(f'{name} {numbers[name]:g}' for name in limits)}"
    return Rule(rule_id, (metric,), title, advice, _beyond, numbers, severity)


def _beyond(look: Look, n: SimpleNamespace) -> bool | None:
    if math.isnan(look.value):
        return None
    return look.value > getattr(n, "above", math.inf) or look.value < getattr(n, "below", -math.inf)


def _check_id(where: str, rule_id: Any, known: Mapping[str, Rule]) -> None:
    if rule_id not in known:
        raise ValueError(f"{where}: there is no alert {rule_id!r}: {nearest(str(rule_id), known)}")


def _read_value(option: str, name: str, written: Any) -> float:
    number = read_finite(option, written)
    if name in _SHARES and not 0.0 <= number <= 1.0:
        raise ValueError(f"{option}={written!r} must be a share, from 0 to 1.")
    if name in ("window", "warmup") and (number < (name == "window") or not number.is_integer()):
        raise ValueError(f"{option}={written!r} must be a whole number of rows.")
    return number
