"""Rules about speed."""

from __future__ import annotations

import statistics
from types import SimpleNamespace

from sb3_ext.callbacks.alerts.context import Look
from sb3_ext.callbacks.alerts.rule import Finding, Rule

__all__ = ["RULES"]


def _fps_drop(look: Look, n: SimpleNamespace) -> bool | Finding | None:
    memory = look.memory
    if "off_policy" in look.facts.algorithms and "train/n_updates" not in look.known:
        return None  # before learning_starts, there are no updates
    early = memory.setdefault("early", [])
    if len(early) < n.compared:
        early.append(look.value)
        return None
    usual = memory.get("usual") or memory.setdefault("usual", statistics.median(early))
    if look.value >= n.threshold * usual:
        memory["slow_seconds"] = 0.0
        memory["step"] = look.step
        return False
    steps = look.step - memory.get("step", look.step)
    memory["step"] = look.step
    memory["slow_seconds"] = memory.get("slow_seconds", 0.0) + steps / max(look.value, 1e-9)
    if memory["slow_seconds"] < n.seconds:
        return False
    return Finding(look.metric, f"{look.value:,.0f} steps per second, down from {usual:,.0f} at the start")


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
