"""Rules about the environment: episodes, copies, scales, speed."""

import math
import statistics
from types import SimpleNamespace

from sb3_ext.callbacks.alerts.context import RuleContext
from sb3_ext.callbacks.alerts.rule import Finding, Rule, Variant, below

__all__ = ["RULES"]


def _no_episode_end(context: RuleContext, params: SimpleNamespace) -> bool | Finding:
    # The sum over the training is not lost when a row is left out
    is_sum = context.metric == "time/episodes"
    ended = context.value > context.memory.get("sum", 0) if is_sum else context.value > 0
    if ended or "step" not in context.memory:
        context.memory.update(step=context.step if ended else context.facts.start, sum=context.value if is_sum else 0)
    steps = (context.step - context.memory["step"]) / context.facts.n_envs
    longest = context.known.get("rollout/ep_len_mean", 0.0)
    limit = context.facts.max_episode_steps
    plausible = params.factor * max(limit, longest) if limit is not None else max(params.steps, params.factor * longest)
    if steps <= plausible:
        return False
    return Finding(context.metric, f"no episode has ended for {steps:,.0f} steps per environment")


def _obs_unscaled(context: RuleContext, params: SimpleNamespace) -> bool | Finding | None:
    if not context.facts.sees_raw_observations:
        return None
    known = context.known
    mean, std = known.get("env/obs_mean", 0.0), known.get("env/obs_std", 0.0)
    low, high = known.get("env/obs_min", 0.0), known.get("env/obs_max", 0.0)
    size, largest = math.hypot(mean, std), max(abs(low), abs(high))
    if size <= params.large and largest <= params.largest and not 0.0 < largest < params.small:
        return False
    return Finding(
        context.metric, f"observations are between {low:.3g} and {high:.3g}, with a root mean square of {size:.3g}"
    )


def _reward_scale(context: RuleContext, params: SimpleNamespace) -> bool | Finding | None:
    known = context.known
    std, low, high = context.value, known.get("env/reward_min", 0.0), known.get("env/reward_max", 0.0)
    size, largest = math.hypot(known.get("env/reward_mean", 0.0), std), max(abs(low), abs(high))
    if largest == 0.0:
        return None  # no reward yet, so its scale is unknown
    too_large = size > params.large and not context.facts.options.get("normalize_values")
    if not too_large and largest >= params.small:
        return False
    return Finding(
        context.metric, f"rewards are between {low:.3g} and {high:.3g}, with a root mean square of {size:.3g}"
    )


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
        "no_episode_end",
        ("time/episodes", "rollout/episodes"),
        "no episode ends",
        "There is no score, and an agent that is stuck stays stuck. Give the environment a time limit "
        "(gymnasium.wrappers.TimeLimit, or env_kwargs: {max_episode_steps: 1000} if it is registered).",
        _no_episode_end,
        {"steps": 20000, "factor": 1.2, "window": 2},
        variants={
            "reinforce": Variant(
                "REINFORCE learns only from complete episodes. Give the environment a time limit "
                "(gymnasium.wrappers.TimeLimit), or set max_episode_steps to learn from parts of an episode."
            )
        },
    ),
    Rule(
        "envs_identical",
        ("rollout/env_diversity",),
        "all environments behave the same",
        "Identical environments add nothing. Give them different seeds or a random start (Atari: sticky actions or "
        "no-ops), or lower n_envs.",
        below,
        {"threshold": 0.01, "window": 10},
    ),
    Rule(
        "obs_unscaled",
        ("env/obs_std",),
        "observations are far from unit scale and not normalised",
        "Add normalize: true to the section in the hyperparameter file (VecNormalize), or scale them with known "
        "bounds: env_wrapper: [{sb3_ext.wrappers.ScaleObservations: {low: …, high: …}}].",
        _obs_unscaled,
        {"large": 10.0, "largest": 1000.0, "small": 0.05, "window": 3},
    ),
    Rule(
        "reward_scale",
        ("env/reward_std",),
        "rewards are extremely large or small",
        "The value loss dominates everything else, or vanishes. Add normalize: true to the section (VecNormalize "
        "scales rewards too), scale rewards in a wrapper, or set normalize_values: true (PPOExt).",
        _reward_scale,
        {"large": 100.0, "small": 0.001, "window": 5},
        variants={
            "reinforce": Variant(
                "normalize_returns protects the policy's gradient, but not the value function's. Add normalize: true "
                "to the section (VecNormalize scales rewards too), or use baseline: mean."
            ),
            "off_policy": Variant(
                "Q-values grow with rewards. Scale rewards in a wrapper so that returns stay within about ±100, or "
                "set normalize: {norm_obs: false, norm_reward: true}."
            ),
        },
    ),
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
