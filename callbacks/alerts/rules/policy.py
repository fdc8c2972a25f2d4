"""Rules about the policy: how random it is, how it starts, and its actions."""

from __future__ import annotations

from types import SimpleNamespace

from sb3_ext.callbacks.alerts.context import Look
from sb3_ext.callbacks.alerts.rule import Finding, Rule, Variant

__all__ = ["RULES"]

_ENTROPY = ("policy/entropy", "train/entropy_loss")


def _entropy_collapse(look: Look, n: SimpleNamespace) -> bool | Finding | None:
    randomness = look.randomness
    if randomness is None:
        return None
    if randomness >= n.threshold or look.is_doing_well(n.patience):
        return False
    return Finding(look.metric, f"{look.metric} is {look.value + 0.0:.3g}, {_described(look, randomness)}")


def _entropy_flat(look: Look, n: SimpleNamespace) -> bool | Finding | None:
    randomness = look.randomness
    if randomness is None:
        return None
    if randomness <= n.threshold or look.is_doing_well(n.patience):
        return False
    return Finding(look.metric, f"{look.metric} is {look.value + 0.0:.3g}, {_described(look, randomness)}")


def _described(look: Look, randomness: float) -> str:
    if look.facts.max_entropy is None:
        return f"standard deviations {randomness:.2g} times those at the start"
    return f"{max(randomness, 0.0):.1%} of the largest possible"


def _initial_mean(look: Look, n: SimpleNamespace) -> bool | Finding:
    if abs(look.value) <= n.threshold:
        return False
    return Finding(look.metric, f"the mean action is {look.value:.2g} where the bounds are -1 and 1")


def _initial_std(look: Look, n: SimpleNamespace) -> bool | Finding:
    if n.low <= look.value <= n.high:
        return False
    return Finding(look.metric, f"the standard deviation of actions is {look.value:.2g} where the bounds are -1 and 1")


def _initial_entropy(look: Look, n: SimpleNamespace) -> bool | Finding:
    if look.value >= n.threshold:
        return False
    return Finding(look.metric, f"the entropy is {look.value:.1%} of that of a uniform policy")


def _action_saturation(look: Look, n: SimpleNamespace) -> bool:
    return look.value > n.threshold and not look.is_doing_well(n.patience)


def _dead_relus(look: Look, n: SimpleNamespace) -> bool:
    return look.value > n.threshold


_NOT_UNIFORM = (
    "An untrained policy should prefer nothing, or it explores only a part of the actions: don't scale up the last "
    "layer (ortho_init: true gives it a gain of 0.01), normalise observations that are large, and don't start from "
    "weights of another task."
)

RULES = (
    Rule(
        "entropy_collapse",
        _ENTROPY,
        "the policy has become deterministic before the task is solved",
        "It no longer explores. Raise ent_coef (0.01; for discrete actions up to 0.1, as a schedule that falls, such "
        "as lin_0.05), lower learning_rate, or set target_kl (0.02).",
        _entropy_collapse,
        {"threshold": 0.05, "window": 5, "span": 0.05, "until": 0.85, "patience": 0.1},
        variants={
            "reinforce": Variant(
                "Without a bound on its updates, REINFORCE becomes sure of whatever worked first: raise ent_coef (0.01 "
                "to 0.05), lower learning_rate, and raise n_steps so that luck weighs less."
            ),
            "a2c": Variant("It no longer explores. Raise ent_coef (0.01), lower learning_rate, raise n_steps."),
            "off_policy": Variant("It no longer explores: set ent_coef: auto, or raise target_entropy (SAC)."),
        },
    ),
    Rule(
        "entropy_flat",
        _ENTROPY,
        "the policy stays as random as it was, and the score where it was",
        "Nothing is learned: lower ent_coef if it is above 0.01, raise learning_rate (by 3 to 10 times), and see that "
        "rewards reach the agent at all (env/reward_std above 0).",
        _entropy_flat,
        {"threshold": 0.97, "window": 20, "span": 0.15, "after": 0.3, "patience": 0.15},
        variants={
            "reinforce": Variant(
                "Nothing is learned: lower ent_coef, raise learning_rate (0.001 to 0.01 is usual here), and see that "
                "episodes end and differ in reward: equal returns have no gradient after normalize_returns."
            )
        },
    ),
    Rule(
        "initial_mean",
        ("policy/initial_action_mean",),
        "the untrained policy's actions are not centred",
        f"{_NOT_UNIFORM} Continuous actions: rescale the action space to [-1, 1] "
        "(gymnasium.wrappers.RescaleAction), since a fresh Gaussian policy acts around 0.",
        _initial_mean,
        {"threshold": 0.3},
    ),
    Rule(
        "initial_std",
        ("policy/initial_action_std",),
        "the untrained policy's actions are too narrow or too wide",
        f"{_NOT_UNIFORM} Continuous actions: rescale the action space to [-1, 1] (gymnasium.wrappers.RescaleAction), "
        "or set log_std_init in policy_kwargs (0 is a standard deviation of 1, -1 of 0.37).",
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
        "What is clipped can't be told apart by the learner. Start with less noise (policy_kwargs: {log_std_init: "
        "-1}), lower ent_coef, lower learning_rate; see that the action space has the bounds you mean ([-1, 1] is "
        "best).",
        _action_saturation,
        {"threshold": 0.8, "window": 10, "share": 0.8, "span": 0.05, "patience": 0.1},
        variants={
            "off_policy": Variant(
                "tanh is saturated and passes no gradient on: lower learning_rate, normalise observations, and keep "
                "ent_coef: auto (SAC) or less action noise (TD3, DDPG)."
            )
        },
    ),
    Rule(
        "dead_relus",
        ("policy/dead_relus",),
        "many ReLU units are dead",
        "They are 0 for every observation and will hardly come back: lower learning_rate, normalise observations, or "
        "use another activation (policy_kwargs: {activation_fn: leaky_relu} or tanh).",
        _dead_relus,
        {"threshold": 0.5, "window": 5},
    ),
)
