"""Rules about speed."""

import statistics
from types import SimpleNamespace

from sb3_ext.callbacks.alerts.context import RuleContext
from sb3_ext.callbacks.alerts.rule import Finding, Rule

__all__ = ["RULES"]


def _fps_drop(context: RuleContext, params: SimpleNamespace) -> bool | Finding | None:
    memory = context.memory
    if "off_policy" in context.facts.algorithms and "train/n_updates" not in context.known:
        return None  # before learning_starts, there are no updates
    early = memory.setdefault("early", [])
    if len(early) < params.compared:
        early.append(context.value)
        return None
    usual = memory.get("usual") or memory.setdefault("usual", statistics.median(early))
    if context.value >= params.threshold * usual:
        memory["slow_seconds"] = 0.0
        memory["step"] = context.step
        return False
    steps = context.step - memory.get("step", context.step)
    memory["step"] = context.step
    memory["slow_seconds"] = memory.get("slow_seconds", 0.0) + steps / max(context.value, 1e-9)
    if memory["slow_seconds"] < params.seconds:
        return False
    return Finding(context.metric, f"{context.value:,.0f} steps per second, down from {usual:,.0f} at the start")


RULES = (
    Rule(
        "fps_drop",
        ("time/fps_now",),
        "training became much slower",
        "Another program uses the cores or the memory, the machine is hot, or something grows over time. Check what "
        "else runs (top), how often evaluations, videos and checkpoints happen, whether the environment is slower in "
        "later states, and whether memory is full (a replay buffer that swaps).",
        _fps_drop,
        {"threshold": 0.4, "seconds": 30.0, "compared": 10, "window": 10},
    ),
)
