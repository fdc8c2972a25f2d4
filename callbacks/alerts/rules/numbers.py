"""Rules about impossible numbers: NaN and infinity, values out of bounds, counters that decrease."""

import math
from types import SimpleNamespace

from sb3_ext.callbacks.alerts.context import RuleContext
from sb3_ext.callbacks.alerts.rule import Finding, Rule, Variant
from sb3_ext.metrics.bounds import is_within
from sb3_ext.metrics.catalogue import describe

__all__ = ["NAN", "RULES", "WHAT_TO_TUNE"]

#: Id of the rule about NaN
NAN = "nan"
#: NaN if all returns are equal, since there is no variance to explain
_MAY_BE_NAN = frozenset({"train/explained_variance"})
#: Groups computed by the algorithm or this package; users may record NaN on purpose
_GROUPS = ("train/", "rollout/", "policy/", "env/obs_", "env/reward_", "time/")


def _nan(context: RuleContext, params: SimpleNamespace) -> bool | Finding:
    if context.faults:
        names = ", ".join(fault.what for fault in context.faults)
        return Finding(context.faults[0].metric, f"NaN or Inf in {names}", context.faults[0].advice)
    if math.isfinite(sum(context.row.values())):
        return False
    for name, value in context.row.items():
        if not math.isfinite(value) and name.startswith(_GROUPS) and name not in _MAY_BE_NAN:
            return Finding(name, f"{name} is {value}")
    return False


def _out_of_bounds(context: RuleContext, params: SimpleNamespace) -> bool | Finding:
    seen, bounded = context.memory.setdefault("seen", set()), context.memory.setdefault("bounded", {})
    for name in sorted(context.row.keys() - seen):
        seen.add(name)
        bounds = context.facts.bounds_of(name)
        if any(map(math.isfinite, bounds)):
            bounded[name] = bounds
    for name, (low, high) in bounded.items():
        value = context.row.get(name, math.nan)
        if (value < low or value > high) and not is_within(value, (low, high)):
            return Finding(name, f"{name} is {value:.4g}, outside {low:.4g} to {high:.4g}")
    return False


def _decreased(context: RuleContext, params: SimpleNamespace) -> bool | Finding:
    seen, growing = context.memory.setdefault("seen", set()), context.memory.setdefault("growing", {})
    for name in sorted(context.row.keys() - seen):
        seen.add(name)
        if describe(name).never_decreases:
            growing[name] = -math.inf
    if context.memory.setdefault("total", context.facts.total) != context.facts.total:
        # Resumed with more timesteps, of which a smaller share is done
        context.memory["total"] = context.facts.total
        growing.pop("time/progress", None)
        seen.discard("time/progress")
    found: Finding | None = None
    for name, before in growing.items():
        value = context.row.get(name, before)
        if value < before and found is None:
            found = Finding(name, f"{name} fell from {before:.6g} to {value:.6g}")
        growing[name] = value
    return found or False


WHAT_TO_TUNE = (
    "Lower learning_rate (by 10 times), set max_grad_norm (0.5), normalise observations and rewards (normalize: "
    "true), and check that the environment returns finite numbers (stable_baselines3.common.vec_env.VecCheckNan finds "
    "the step)."
)

RULES = (
    Rule(
        NAN,
        (),
        "NaN or Inf",
        WHAT_TO_TUNE,
        _nan,
        severity="error",
        variants={
            "reinforce": Variant(
                "Lower learning_rate (by 10 times): nothing limits REINFORCE's updates. Normalise observations and "
                "rewards (normalize: true), and check that the environment returns finite numbers "
                "(stable_baselines3.common.vec_env.VecCheckNan finds the step)."
            ),
            "off_policy": Variant(
                "Lower learning_rate (by 10 times), scale rewards down so that Q-values stay within about ±100, lower "
                "gamma, and check that the environment returns finite numbers "
                "(stable_baselines3.common.vec_env.VecCheckNan finds the step)."
            ),
        },
    ),
    Rule(
        "out_of_bounds",
        (),
        "a number is impossible",
        "No hyperparameter causes this: the environment leaves its own spaces, or a wrapper or callback "
        "computes something wrong. Check the environment with stable_baselines3.common.env_checker.check_env, and the "
        "bounds of its spaces.",
        _out_of_bounds,
        severity="error",
    ),
    Rule(
        "decreased",
        (),
        "a number that can only grow has decreased",
        "No hyperparameter causes this: two trainings write to one log, a callback counts wrong, or a training "
        "was resumed with another counter. Give each training its own logger and run folder.",
        _decreased,
        severity="error",
    ),
)
