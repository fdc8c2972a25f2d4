"""For each rule a history that shows its fault, and a healthy one."""

import math

from sb3_ext.callbacks.alerts.context import RuleFacts
from sb3_ext.callbacks.alerts.engine import RuleEngine
from sb3_ext.callbacks.alerts.rules import RULES

N_ROWS, STEPS_A_ROW = 200, 1000
BOUNDS = {"policy/prob_max": (0.0, 1.0)}


def facts(*algorithms, **known):
    return RuleFacts(
        algorithms=frozenset(algorithms or ("ppo", "on_policy")),
        n_envs=8,
        total=N_ROWS * STEPS_A_ROW,
        bounds_of=lambda name: BOUNDS.get(name, (-math.inf, math.inf)),
        **{"max_entropy": math.log(2), "threshold": 475.0, "max_episode_steps": 500, **known},
    )


def fired_rows(rule_id, row_at, run=None, changes=None, n_rows=N_ROWS):
    """Numbers of the rows that a rule fires at, from 0 on."""
    engine = RuleEngine([RULES[rule_id]], run or facts(), {rule_id: changes or {}})
    rows = ((index, row_at(index)) for index in range(n_rows))
    return [index for index, row in rows if engine.check((index + 1) * STEPS_A_ROW, row)]


def score(value, **others):
    return {"rollout/ep_rew_mean": value, **{name.replace("__", "/"): number for name, number in others.items()}}


def learning(index):
    """A score that rises to the threshold in the first half of the training."""
    return min(20 + 5 * index, 500)


#: By id: a run, rows with the fault, rows of a healthy training
CASES = {
    "action_saturation": (
        facts(max_entropy=None, threshold=None),
        lambda i: score(-1200, policy__action_saturation=0.95),
        lambda i: score(-1200 + 8 * i, policy__action_saturation=0.95 if i > 100 else 0.3),
    ),
    "clip_high": (
        facts(),
        lambda i: {"train/clip_fraction": 0.6},
        lambda i: {"train/clip_fraction": 0.6 if i % 10 == 0 else 0.15},
    ),
    "clip_low": (
        facts(),
        lambda i: score(20, train__clip_fraction=0.0),
        lambda i: score(learning(i), train__clip_fraction=0.0 if i > 80 else 0.1),
    ),
    "dead_relus": (facts(), lambda i: {"policy/dead_relus": 0.7}, lambda i: {"policy/dead_relus": 0.2}),
    "decreased": (
        facts(),
        lambda i: {"time/episodes": 10 - i % 10},
        lambda i: {"time/episodes": i // 2, "rollout/ep_rew_mean": -i},
    ),
    "entropy_collapse": (
        facts(),
        lambda i: score(50, policy__entropy=0.69 * 0.8**i),
        # It ends deterministic, but with the task solved
        lambda i: score(learning(i), policy__entropy=max(0.69 - 0.007 * i, 0.001)),
    ),
    "entropy_flat": (
        facts(),
        lambda i: score(20, policy__entropy=0.693),
        lambda i: score(learning(i), policy__entropy=0.693 - 0.002 * i),
    ),
    "envs_identical": (
        facts(),
        lambda i: {"rollout/env_diversity": 0.0},
        lambda i: {"rollout/env_diversity": min(0.05 * i, 0.9)},
    ),
    "fps_drop": (
        facts(),
        lambda i: {"time/fps_now": 1000 if i < 50 else 90},
        lambda i: {"time/fps_now": 1000 if i % 10 else 90},
    ),
    "grad_exploding": (
        facts(),
        lambda i: {"train/grad_norm_actor": 0.5 if i < 50 else 500.0},
        # The critic's is large because rewards are
        lambda i: {"train/grad_norm_actor": 0.5, "train/grad_norm_critic": 300.0, "train/grad_norm": 300.0 + i},
    ),
    "grad_vanishing": (
        facts(),
        lambda i: score(20, train__grad_norm_actor=1e-6),
        lambda i: score(learning(i), train__grad_norm_actor=0.3 if i < 95 else 1e-6),
    ),
    "importance_low": (
        facts("reinforce", "on_policy"),
        lambda i: {"train/importance_weight": 0.4},
        lambda i: {"train/importance_weight": 0.95},
    ),
    "initial_entropy": (
        facts(),
        lambda i: {"policy/initial_entropy_share": 0.5} if i == 0 else {},
        lambda i: {"policy/initial_entropy_share": 0.999} if i == 0 else {},
    ),
    "initial_mean": (
        facts(max_entropy=None),
        lambda i: {"policy/initial_action_mean": -1.0} if i == 0 else {},
        lambda i: {"policy/initial_action_mean": 0.02} if i == 0 else {},
    ),
    "initial_std": (
        facts(max_entropy=None),
        lambda i: {"policy/initial_action_std": 0.01} if i == 0 else {},
        lambda i: {"policy/initial_action_std": 1.0} if i == 0 else {},
    ),
    "kl_high": (facts(), lambda i: {"train/approx_kl": 0.4}, lambda i: {"train/approx_kl": 0.4 if i == 7 else 0.02}),
    "kl_low": (
        facts(),
        lambda i: score(20, train__approx_kl=1e-7, train__learning_rate=3e-4),
        # As small as the schedule wants it
        lambda i: score(20, train__approx_kl=0.01 if i < 100 else 1e-7, train__learning_rate=3e-4 if i < 100 else 1e-6),
    ),
    "kl_stops": (facts(), lambda i: {"train/kl_stopped": 1}, lambda i: {"train/kl_stopped": int(i % 4 == 0)}),
    "lr_zero": (
        facts(),
        lambda i: {"train/learning_rate": max(1e-3 - 2e-5 * i, 0)},
        lambda i: {"train/learning_rate": 1e-3 * (1 - (i + 1) / N_ROWS)},
    ),
    "nan": (
        facts(),
        lambda i: {"train/loss": math.nan if i == 20 else 1.0},
        # Where all returns are the same, there is no variance to explain
        lambda i: {"train/loss": 1.0, "train/explained_variance": math.nan, "custom/ratio": math.nan},
    ),
    "no_episode_end": (
        facts(),
        lambda i: {"time/episodes": 5},
        lambda i: {"time/episodes": i // 3},
    ),
    "obs_unscaled": (
        facts(sees_raw_observations=True),
        lambda i: {"env/obs_mean": 100, "env/obs_std": 300, "env/obs_min": -500, "env/obs_max": 900},
        lambda i: {"env/obs_mean": 0.1, "env/obs_std": 1.5, "env/obs_min": -8, "env/obs_max": 8},
    ),
    "out_of_bounds": (facts(), lambda i: {"policy/prob_max": 1.2}, lambda i: {"policy/prob_max": 1.0000001}),
    "q_exploding": (
        facts("dqn", "off_policy"),
        lambda i: {"train/loss": 2.0**i},
        lambda i: {"train/loss": 0.1 + 0.1 * i},
    ),
    "returns_equal": (
        facts(),
        lambda i: {"rollout/return_std": 0.0, "rollout/return_mean": 1.0},
        lambda i: {"rollout/return_std": 0.0 if i < 20 else 0.5, "rollout/return_mean": 0.0 if i < 20 else 1.0},
    ),
    "reward_drop": (
        facts(),
        lambda i: score(learning(i) if i < 120 else 60),
        lambda i: score(learning(i) * (0.7 if i % 20 == 0 else 1)),
    ),
    "reward_scale": (
        facts(),
        lambda i: {"env/reward_mean": 1000, "env/reward_std": 0, "env/reward_min": 1000, "env/reward_max": 1000},
        # Most rollouts of FrozenLake have no reward at all
        lambda i: {"env/reward_mean": 0, "env/reward_std": 0, "env/reward_min": 0, "env/reward_max": float(i % 7 == 0)},
    ),
    "reward_stall": (
        facts(),
        lambda i: score(20 + i % 3),
        # A long plateau, and then it learns
        lambda i: score(20 if i < 60 else learning(2 * (i - 60))),
    ),
    "value_overfit": (
        facts(options={"n_epochs": 50}),
        lambda i: score(20, rollout__value_error=30.0, train__value_loss=4.0),
        lambda i: score(20, rollout__value_error=30.0, train__value_loss=500.0, train__explained_variance=0.99),
    ),
    "value_useless": (
        facts(),
        lambda i: score(20, train__explained_variance=-0.2),
        # Useless for the first third, as LunarLanderContinuous may be
        lambda i: score(learning(i), train__explained_variance=-0.2 if i < 66 else 0.7),
    ),
}
