"""Rules about learning: the score, the size of updates, the learning rate."""

from types import SimpleNamespace

from sb3_ext.callbacks.alerts.context import RuleContext
from sb3_ext.callbacks.alerts.rule import Rule, Variant, above, below

__all__ = ["RULES"]

_SCORE = "rollout/ep_rew_mean"
_KL = "train/approx_kl"
_CLIP = "train/clip_fraction"
_LR = "train/learning_rate"


def _reward_stall(context: RuleContext, params: SimpleNamespace) -> bool:
    score = context.score
    if score.solved or (context.facts.threshold is None and score.learned):
        return False  # without a threshold, this may be the best possible score
    if score.way_made >= params.near:
        return False  # the rest may be the cost of exploration
    if context.progress - score.improved_at < params.patience:
        return False
    # A few rows are not enough, and a low score that rises is fine
    return score.n_since(params.patience) >= params.scores and not score.rises(params.patience)


def _reward_drop(context: RuleContext, params: SimpleNamespace) -> bool:
    score, threshold = context.score, context.facts.threshold
    if score.solved:
        return False
    if threshold is not None and score.best - score.first < params.learned * (threshold - score.first):
        return False  # too little was learned to lose
    return score.lost >= params.lost


def _kl_low(context: RuleContext, params: SimpleNamespace) -> bool:
    if context.score.solved or context.learns_slowly_on_purpose or context.is_deterministic:
        return False
    return context.value < params.threshold


def _clip_low(context: RuleContext, params: SimpleNamespace) -> bool:
    if context.is_doing_well(params.patience) or context.learns_slowly_on_purpose or context.is_deterministic:
        return False
    return context.value < params.threshold


def _kl_stops(context: RuleContext, params: SimpleNamespace) -> bool:
    return context.value >= params.threshold


def _lr_zero(context: RuleContext, params: SimpleNamespace) -> bool:
    return context.value <= params.threshold or context.share_of_start(_LR) <= params.share_of_start


_SLOWER = "Lower learning_rate (by 3 to 10 times)"

RULES = (
    Rule(
        "reward_stall",
        (_SCORE,),
        "the score does not improve",
        "The policy gets no useful signal, or is stuck. In this order: follow the advice of other alerts; try a "
        "learning_rate 3 times higher and 3 times lower; raise ent_coef (0.01) to explore more; collect more steps "
        "per rollout (n_steps, n_envs). If rewards are rare, raise gamma, shape the reward, or use a curriculum.",
        _reward_stall,
        {"patience": 0.45, "near": 0.8, "scores": 10},
        variants={
            "reinforce": Variant(
                "REINFORCE learns from whole episodes, and its gradients are noisy. Raise n_steps or n_envs so that "
                "each update sees 20 episodes or more, keep baseline: value and normalize_returns: rollout, and try a "
                "learning_rate 3 times higher and lower. If rewards are rare, try ent_coef from 0.01 to 0.05."
            ),
            "off_policy": Variant(
                "Check that learning has begun (learning_starts) and that exploration lasts (DQN: a longer "
                "exploration_fraction; SAC: ent_coef: auto; TD3, DDPG: action noise). Then try a learning_rate 3 "
                "times higher and lower, a larger buffer_size, and more gradient_steps per step."
            ),
        },
    ),
    Rule(
        "reward_drop",
        (_SCORE,),
        "the score has fallen far below its best",
        "An update went too far, and the policy has not recovered. Lower learning_rate or let it decrease "
        "(lin_0.0003), lower n_epochs, or set target_kl (0.02; PPOExt can also undo such an update with kl_rollback: "
        "true). With evaluation, best_model.zip has the earlier policy.",
        _reward_drop,
        {"lost": 0.6, "learned": 0.2, "window": 5, "span": 0.03},
        variants={
            "reinforce": Variant(
                "A single update of REINFORCE can undo what was learned. Lower learning_rate or let it decrease early "
                "(lin_0.001, or points such as [[0, 0.002], [0.4, 0.0004], [1, 0.00005]]), and raise n_steps so that "
                "more episodes share an update."
            ),
            "a2c": Variant(
                "Lower learning_rate or let it decrease (lin_0.0007), raise n_steps or n_envs, set max_grad_norm to "
                "0.5, and keep ent_coef at 0 or 0.01. PPO limits its updates, A2C does not."
            ),
            "off_policy": Variant(
                "The policy has forgotten. Raise buffer_size, lower learning_rate, update the target network more "
                "slowly (tau for SAC, TD3 and DDPG; target_update_interval for DQN), and keep some exploration."
            ),
        },
    ),
    Rule(
        "kl_high",
        (_KL,),
        "updates change the policy too much",
        f"{_SLOWER} or n_epochs, raise batch_size, or set target_kl (0.02), which ends updates in time. 0.005 to 0.03 "
        "is usual.",
        above,
        {"threshold": 0.06, "window": 10, "share": 0.6},
        variants={
            "reinforce": Variant(
                f"{_SLOWER}: nothing limits REINFORCE's updates. Or raise n_steps, and raise batch_size so that each "
                "rollout has fewer gradient steps.",
                {"threshold": 0.1, "window": 5},
            ),
            "a2c": Variant(f"{_SLOWER}, or raise n_steps: nothing limits A2C's updates.", {"threshold": 0.1}),
        },
    ),
    Rule(
        "kl_low",
        (_KL,),
        "updates barely change the policy",
        "Raise learning_rate (by 3 to 10 times) or n_epochs, or lower batch_size. Check that max_grad_norm is not "
        "tiny, and that the critic's gradient does not dominate the actor's (vf_coef, normalize_values).",
        _kl_low,
        {"threshold": 1e-4, "window": 20, "span": 0.1, "until": 0.8},
        severity="hint",
        variants={
            "reinforce": Variant(
                "Raise learning_rate (REINFORCE makes one step per rollout, so 0.001 to 0.01 is usual), or set "
                "batch_size so that it makes several.",
                {"threshold": 1e-6},
            ),
            "a2c": Variant("Raise learning_rate (by 3 to 10 times), or lower n_steps.", {"threshold": 1e-8}),
        },
    ),
    Rule(
        "clip_high",
        (_CLIP,),
        "most samples are clipped",
        f"{_SLOWER} or n_epochs, or raise clip_range (0.1 to 0.3 is usual). Clipped samples teach nothing; a fraction "
        "of 0.05 to 0.3 is usual.",
        above,
        {"threshold": 0.4, "window": 10, "share": 0.6},
    ),
    Rule(
        "clip_low",
        (_CLIP,),
        "nothing is clipped, and the score does not improve",
        "Updates are far smaller than clip_range allows. Raise learning_rate or n_epochs, or lower batch_size.",
        _clip_low,
        {"threshold": 0.001, "window": 20, "span": 0.1, "until": 0.8, "patience": 0.1},
        severity="hint",
    ),
    Rule(
        "kl_stops",
        ("train/kl_stopped",),
        "most updates end early because of target_kl",
        "Most of the epochs never run. Lower learning_rate or n_epochs, or raise batch_size. If learning is stable, "
        "raise target_kl. kl_adaptive_lr adapts the learning rate for you.",
        _kl_stops,
        {"threshold": 0.5, "window": 20, "share": 0.6},
        severity="hint",
    ),
    Rule(
        "lr_zero",
        (_LR,),
        "the learning rate is zero long before the end",
        "The schedule of learning_rate should end with the training: check its points and n_timesteps. A training "
        "that continues with reset_num_timesteps=False starts where the schedule ended.",
        _lr_zero,
        {"threshold": 1e-9, "share_of_start": 0.001, "window": 3, "until": 0.9},
    ),
    Rule(
        "importance_low",
        ("train/importance_weight",),
        "most samples come from an older policy",
        "Raise n_steps so that most episodes start and end in the same rollout, or lower learning_rate.",
        below,
        {"threshold": 0.85, "window": 10, "share": 0.5},
        algorithms=("reinforce",),
    ),
)
