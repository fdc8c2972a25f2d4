"""Rules about the value function."""

import math
from types import SimpleNamespace

from sb3_ext.callbacks.alerts.context import RuleContext
from sb3_ext.callbacks.alerts.rule import Finding, Rule, Variant

__all__ = ["RULES"]


def _value_useless(context: RuleContext, params: SimpleNamespace) -> bool | None:
    if context.facts.options.get("baseline", "value") != "value" or math.isnan(context.value):
        return None
    if context.value > params.threshold or context.is_deterministic:
        return False  # all episodes are alike, so there is hardly any variance to explain
    return not context.is_doing_well(params.patience)  # an improving policy gets useful advantages


def _returns_equal(context: RuleContext, params: SimpleNamespace) -> bool | Finding | None:
    mean = context.row.get("rollout/return_mean", 0.0)
    if mean == 0.0:
        return None  # rewards may be rare
    return context.value <= params.threshold * abs(mean) and Finding(
        context.metric, f"all returns of a rollout are {mean:.4g}"
    )


def _value_overfit(context: RuleContext, params: SimpleNamespace) -> bool | Finding | None:
    """
    Compares the error on the new rollout with the error of the previous update on its own data. An explained variance
    near 1 would be no sign of it: with a small ``gae_lambda``, returns consist of the values themselves.
    """
    options, loss = context.facts.options, context.known.get("train/value_loss")
    if options.get("n_epochs", 1) < 2 or options.get("normalize_values") or options.get("value_loss", "mse") != "mse":
        return None  # one epoch can't overfit, and other losses have other units
    if not loss or not math.isfinite(loss) or not math.isfinite(context.value):
        return None
    gap = context.value**2 / loss
    if gap < params.threshold or context.score.solved:
        return False
    return Finding(context.metric, f"the squared value error is {gap:.3g} times larger on new data than in the update")


def _q_exploding(context: RuleContext, params: SimpleNamespace) -> bool | None:
    early = context.early(context.metric)
    if len(early) < 2 or not math.isfinite(context.value):
        return None
    return context.value > params.threshold and context.value > params.growth * max(early)


RULES = (
    Rule(
        "returns_equal",
        ("rollout/return_std",),
        "all returns are equal",
        "The agent can't learn from equal returns. Raise gamma (0.99; with 0, the agent sees only the next reward), "
        "and check that the environment's rewards tell good from bad.",
        _returns_equal,
        {"threshold": 1e-6, "window": 10, "span": 0.03},
    ),
    Rule(
        "value_useless",
        ("train/explained_variance",),
        "the value function predicts no better than the mean return",
        "Advantages are noise. Raise vf_coef or n_epochs, normalise rewards (normalize: true) or values "
        "(normalize_values: true in PPOExt), give the critic its own, larger network (policy_kwargs: {net_arch: {pi: "
        "[64, 64], vf: [256, 256]}}), or lower gamma. Check that observations contain what the future depends on.",
        _value_useless,
        {"threshold": 0.05, "window": 20, "span": 0.4, "share": 0.9, "patience": 0.1},
        variants={
            "reinforce": Variant(
                "The baseline does not help. Raise vf_coef, normalise rewards (normalize: true), set batch_size so "
                "that the value function gets several steps per rollout, lower gamma, or use baseline: mean.",
                # One step per rollout explains little in good runs too
                {"threshold": -0.05, "span": 0.5},
            ),
            "a2c": Variant(
                "Advantages are noise. Raise vf_coef, learning_rate or n_steps, normalise rewards (normalize: true), "
                "or lower gamma. Check that observations contain what the future depends on."
            ),
        },
    ),
    Rule(
        "value_overfit",
        ("rollout/value_error",),
        "the value function overfits its last rollout",
        "Lower n_epochs, collect more steps per rollout (n_steps, n_envs), make the critic's network smaller, or set "
        "weight_decay (policy_kwargs: {weight_decay: 0.001} in sb3-ext's policies).",
        _value_overfit,
        {"threshold": 4.0, "window": 20, "span": 0.05, "share": 0.8},
        algorithms=("ppo",),
    ),
    Rule(
        "q_exploding",
        ("train/critic_loss", "train/loss"),
        "Q-values explode",
        "Lower learning_rate or gamma, scale rewards down, or slow down the target network (tau; "
        "target_update_interval for DQN).",
        _q_exploding,
        {"threshold": 1000.0, "growth": 100.0, "window": 3},
        algorithms=("off_policy",),
    ),
)
