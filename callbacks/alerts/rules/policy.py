"""Rules about the policy: its entropy, its initialisation and its actions."""

import operator
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace

from sb3_ext.callbacks.alerts.context import RuleContext
from sb3_ext.callbacks.alerts.rule import Finding, Rule, Variant, above

__all__ = ["RULES"]

_ENTROPY = ("policy/entropy", "train/entropy_loss")


def _randomness(
    is_beyond: Callable[[float, float], bool], context: RuleContext, params: SimpleNamespace
) -> bool | Finding | None:
    randomness = context.randomness
    if randomness is None:
        return None
    if not is_beyond(randomness, params.threshold) or context.is_doing_well(params.patience):
        return False
    return Finding(context.metric, f"{context.metric} is {context.value + 0.0:.3g}, {_described(context, randomness)}")


def _described(context: RuleContext, randomness: float) -> str:
    if context.facts.max_entropy is None:
        return f"with standard deviations {randomness:.2g} times the initial ones"
    return f"{max(randomness, 0.0):.1%} of the maximum"


def _initial_mean(context: RuleContext, params: SimpleNamespace) -> bool | Finding:
    if abs(context.value) <= params.threshold:
        return False
    return Finding(context.metric, f"the mean action is {context.value:.2g}, with bounds scaled to -1 and 1")


def _initial_std(context: RuleContext, params: SimpleNamespace) -> bool | Finding:
    if params.low <= context.value <= params.high:
        return False
    return Finding(
        context.metric, f"the standard deviation of actions is {context.value:.2g}, with bounds scaled to -1 and 1"
    )


def _initial_entropy(context: RuleContext, params: SimpleNamespace) -> bool | Finding:
    if context.value >= params.threshold:
        return False
    return Finding(context.metric, f"the entropy is {context.value:.1%} of a uniform policy's")


def _action_saturation(context: RuleContext, params: SimpleNamespace) -> bool:
    return context.value > params.threshold and not context.is_doing_well(params.patience)


_NOT_UNIFORM = (
    "An untrained policy should prefer no action, or it explores only some of them. Don't scale up the last layer "
    "(ortho_init: true gives it a gain of 0.01), normalise large observations, and don't start from the weights of "
    "another task."
)

RULES = (
    Rule(
        "entropy_collapse",
        _ENTROPY,
        "the policy became deterministic before the task was solved",
        "It no longer explores. Raise ent_coef (0.01; for discrete actions up to 0.1, as a decreasing schedule such "
        "as lin_0.05), lower learning_rate, or set target_kl (0.02).",
        partial(_randomness, operator.lt),
        {"threshold": 0.05, "window": 5, "span": 0.05, "until": 0.85, "patience": 0.1},
        variants={
            "reinforce": Variant(
                "Nothing limits REINFORCE's updates, so it settles on whatever worked first. Raise ent_coef (0.01 to "
                "0.05), lower learning_rate, and raise n_steps so that luck matters less."
            ),
            "a2c": Variant("It no longer explores. Raise ent_coef (0.01), lower learning_rate, or raise n_steps."),
            "off_policy": Variant("It no longer explores. Set ent_coef: auto, or raise target_entropy (SAC)."),
        },
    ),
    Rule(
        "entropy_flat",
        _ENTROPY,
        "neither the policy's randomness nor the score changes",
        "The agent learns nothing. Lower ent_coef if it is above 0.01, raise learning_rate (by 3 to 10 times), and "
        "check that the agent gets any rewards (env/reward_std above 0).",
        partial(_randomness, operator.gt),
        {"threshold": 0.97, "window": 20, "span": 0.15, "after": 0.3, "patience": 0.15},
        variants={
            "reinforce": Variant(
                "The agent learns nothing. Lower ent_coef, raise learning_rate (0.001 to 0.01 is usual for "
                "REINFORCE), and check that episodes end and differ in reward: after normalize_returns, equal returns "
                "have no gradient."
            )
        },
    ),
    Rule(
        "initial_mean",
        ("policy/initial_action_mean",),
        "the untrained policy's actions are not centred",
        f"{_NOT_UNIFORM} Rescale the action space to [-1, 1] (gymnasium.wrappers.RescaleAction): an untrained Gaussian "
        "policy acts around 0.",
        _initial_mean,
        {"threshold": 0.3},
    ),
    Rule(
        "initial_std",
        ("policy/initial_action_std",),
        "the untrained policy explores too little or too much",
        f"{_NOT_UNIFORM} Rescale the action space to [-1, 1] (gymnasium.wrappers.RescaleAction), or set log_std_init "
        "in policy_kwargs (0 is a standard deviation of 1, -1 one of 0.37).",
        _initial_std,
        {"low": 0.2, "high": 3.0},
    ),
    Rule(
        "initial_entropy",
        ("policy/initial_entropy_share",),
        "the untrained policy is not uniform",
        _NOT_UNIFORM,
        _initial_entropy,
        {"threshold": 0.9},
    ),
    Rule(
        "action_saturation",
        ("policy/action_saturation",),
        "most actions are at the bounds",
        "The algorithm can't tell clipped actions apart. Start with less noise (policy_kwargs: {log_std_init: -1}), "
        "lower ent_coef or learning_rate, and check the bounds of the action space ([-1, 1] is best).",
        _action_saturation,
        {"threshold": 0.8, "window": 10, "share": 0.8, "span": 0.05, "patience": 0.1},
        variants={
            "off_policy": Variant(
                "A saturated tanh passes no gradient. Lower learning_rate, normalise observations, and keep ent_coef: "
                "auto (SAC) or use less action noise (TD3, DDPG)."
            )
        },
    ),
    Rule(
        "dead_relus",
        ("policy/dead_relus",),
        "many ReLU units are dead",
        "They output 0 for every observation and rarely recover. Lower learning_rate, normalise observations, or use "
        "another activation (policy_kwargs: {activation_fn: leaky_relu} or tanh).",
        above,
        {"threshold": 0.5, "window": 5},
    ),
)
