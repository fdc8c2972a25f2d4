"""Rules about gradients."""

import math
from types import SimpleNamespace

from sb3_ext.callbacks.alerts.context import RuleContext
from sb3_ext.callbacks.alerts.rule import Finding, Rule, Variant

__all__ = ["RULES"]

_ACTOR, _CRITIC, _ALL = "train/grad_norm_actor", "train/grad_norm_critic", "train/grad_norm"


def _grad_exploding(context: RuleContext, params: SimpleNamespace) -> bool | Finding | None:
    """
    The size of the critic's gradient depends on the rewards, so only growth and extreme sizes count. The actor's
    gradient does not depend on the rewards if advantages are normalised.
    """
    row, normalized = context.row, context.facts.options.get("normalize_advantage", True)
    actor = row.get(_ACTOR)
    if actor is not None and normalized and actor > params.threshold:
        return Finding(_ACTOR, f"{_ACTOR} is {actor:.3g}, above {params.threshold:g}")
    for name in (_ACTOR, _CRITIC, _ALL):
        value, early = row.get(name), context.early(name)
        if value is None or not math.isfinite(value):
            continue
        if value > params.largest:
            return Finding(name, f"{name} is {value:.3g}, above {params.largest:g}")
        if len(early) >= params.compared and value > params.growth * max(early) and value > params.threshold:
            return Finding(name, f"{name} is {value:.3g}, up from at most {max(early):.3g} in the first rows")
    return False


def _grad_vanishing(context: RuleContext, params: SimpleNamespace) -> bool:
    if context.is_doing_well(params.patience) or context.learns_slowly_on_purpose:
        return False
    return context.value < params.threshold


RULES = (
    Rule(
        "grad_exploding",
        (_ACTOR, _ALL),
        "gradients explode",
        "Lower learning_rate, keep max_grad_norm at 0.5, normalise observations and rewards (normalize: true), or set "
        "target_kl (0.02). If it is the critic's gradient, set normalize_values: true (PPOExt) or lower vf_coef.",
        _grad_exploding,
        {"threshold": 30.0, "largest": 100_000.0, "growth": 100.0, "compared": 5, "window": 3},
        variants={
            "reinforce": Variant(
                "Lower learning_rate, keep normalize_returns: rollout and max_grad_norm at 0.5, and normalise "
                "observations and rewards (normalize: true)."
            )
        },
    ),
    Rule(
        "grad_vanishing",
        (_ACTOR, _ALL, "train/grad_norm_clipped_actor", "train/grad_norm_clipped"),
        "almost no gradient reaches the policy",
        "Check whether the policy is deterministic (policy/entropy near 0: raise ent_coef), whether rewards differ at "
        "all (env/reward_std above 0), and whether units are saturated (normalise observations; activation_fn: relu; "
        "layer_norm: true in sb3-ext's policies).",
        _grad_vanishing,
        {"threshold": 1e-3, "window": 10, "span": 0.05, "share": 0.9, "patience": 0.1},
        variants={
            "off_policy": Variant(
                "Check whether rewards differ at all (env/reward_std above 0). If units are saturated, normalise "
                "observations and lower learning_rate.",
                {"threshold": 1e-7},
            )
        },
    ),
)
