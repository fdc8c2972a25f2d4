"""Each rule fires on a history that shows its fault, and stays silent on a healthy one; no training here."""

import json
import math
import re
from pathlib import Path
from typing import get_args

import pytest
from rule_cases import CASES, N_ROWS, STEPS_A_ROW, facts, fired_rows, score

from sb3_ext.callbacks.alerts.context import RuleFacts
from sb3_ext.callbacks.alerts.engine import FiringWindow, RuleEngine
from sb3_ext.callbacks.alerts.rule import Severity
from sb3_ext.callbacks.alerts.rules import RULES
from sb3_ext.callbacks.alerts.score import Score
from sb3_ext.metrics.bounds import is_within


def test_every_rule_has_a_case():
    assert [rule_id for rule_id in RULES if rule_id not in CASES] == [], "add a case to CASES in rule_cases.py"
    assert set(CASES) <= set(RULES)


DOCS = (Path(__file__).parents[3] / "docs" / "alerts.md").read_text(encoding="utf-8")
#: How the docs say the numbers that most rules have
PHRASES = {
    r"(\d+) of (\d+) rows": lambda bad, rows: {"share": bad / rows, "window": rows},
    r"(\d+) % of (\d+) (?:rows|updates)": lambda percent, rows: {"share": percent / 100, "window": rows},
    r"for (\d+) rows": lambda rows: {"window": rows},
    r"and (\d+) % of the training": lambda percent: {"span": percent / 100},
    r"before (\d+) % of": lambda percent: {"until": percent / 100},
    r"after (\d+) % of": lambda percent: {"after": percent / 100},
}


@pytest.mark.parametrize("rule_id", RULES)
def test_the_documented_numbers_are_those_of_the_rule(rule_id):
    rows = re.findall(rf"\| `{rule_id}`, .*? \| (.*?) \|", DOCS)
    assert len(rows) == 1, f"docs/alerts.md needs one row that starts with | `{rule_id}`, <severity> |"
    (fires_when,) = rows
    text = re.sub(r"\((REINFORCE|A2C|off-policy)[^)]*\)", "", fires_when)
    said = {name: float(number.replace(",", "")) for name, number in re.findall(r"`(\w+)` \(([-\d.,e]*\d)", text)}
    for phrase, read in PHRASES.items():
        for numbers in re.findall(phrase, text):
            said |= read(*map(float, [numbers] if isinstance(numbers, str) else numbers))
    assert {name: RULES[rule_id].all_numbers[name] for name in said} == said


@pytest.mark.parametrize("rule_id", CASES)
def test_a_rule_fires_on_its_fault_and_names_a_metric_of_the_row(rule_id):
    run, faulty, _ = CASES[rule_id]
    rows = fired_rows(rule_id, faulty, run)
    assert rows
    engine = RuleEngine([RULES[rule_id]], run)
    fired = [engine.check((index + 1) * STEPS_A_ROW, faulty(index)) for index in range(rows[0] + 1)]
    (alert,) = fired[-1]
    assert alert.metric in faulty(rows[0])


@pytest.mark.parametrize("rule_id", CASES)
def test_a_rule_is_silent_on_a_healthy_history(rule_id):
    run, _, healthy = CASES[rule_id]
    assert fired_rows(rule_id, healthy, run) == []


@pytest.mark.parametrize("rule_id", RULES)
def test_a_rule_is_not_judged_without_its_metrics(rule_id):
    engine = RuleEngine([RULES[rule_id]], facts())
    assert engine.check(1000, {"custom/number": 1.0}) == []
    looks_at_all = not RULES[rule_id].metrics
    assert bool(engine.checked) == looks_at_all


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_a_rule_says_what_to_tune(rule):
    assert len(rule.advice) > 50
    assert rule.title and not rule.title.endswith(".")
    assert rule.severity in get_args(Severity)
    assert all(variant.numbers.keys() <= rule.all_numbers.keys() for variant in rule.variants.values())


@pytest.mark.parametrize(
    "rule_id", ["reward_stall", "entropy_collapse", "value_useless", "kl_low", "clip_low", "grad_vanishing"]
)
def test_a_solved_task_needs_no_alert(rule_id):
    """Solved CartPole: the same score, no entropy, no variance to explain, hardly any updates."""
    row = score(
        500,
        policy__entropy=0.001,
        train__explained_variance=-0.1,
        train__approx_kl=0.0,
        train__clip_fraction=0.0,
        train__grad_norm_actor=0.0,
    )
    assert fired_rows(rule_id, lambda index: row if index > 5 else score(20)) == []


def test_a_plateau_after_learning_is_a_stall_only_where_more_is_known_to_be_possible():
    def row(index):
        return score(min(-1200 + 50 * index, -500))

    assert fired_rows("reward_stall", row, facts(threshold=-100.0))
    assert fired_rows("reward_stall", row, facts(threshold=None)) == []


def test_reinforce_has_its_own_thresholds_and_advice():
    reinforce = facts("reinforce", "on_policy")

    def row(index):
        return score(20, train__approx_kl=1e-5)

    assert fired_rows("kl_low", row)
    assert fired_rows("kl_low", row, reinforce) == []
    (own,) = RuleEngine([RULES["entropy_collapse"]], reinforce).active
    assert "REINFORCE" in own.advice


def test_values_without_baseline_are_not_judged():
    run = facts("reinforce", "on_policy", options={"baseline": "mean"})
    assert fired_rows("value_useless", CASES["value_useless"][1], run) == []


def test_a_stuck_continuous_policy_is_compared_with_its_start():
    run = facts(max_entropy=None, action_dims=2)

    def row(index):
        # Standard deviations fall from 1 to 0.01, which is an entropy of 2 ln 0.01 less
        return score(20, policy__entropy=2.8 + 2 * math.log(max(1 - 0.05 * index, 0.01)))

    assert fired_rows("entropy_collapse", row, run)
    assert fired_rows("entropy_collapse", lambda index: score(20, policy__entropy=-1.0), run) == []


def test_numbers_of_a_rule_can_be_tightened():
    def row(index):
        return {"train/approx_kl": 0.06}

    assert fired_rows("kl_high", row) == []
    assert fired_rows("kl_high", row, changes={"threshold": 0.05, "window": 3}, n_rows=4) == [2, 3]


def test_a_row_of_an_evaluation_in_between_breaks_no_window():
    def row(index):
        return {"eval/mean_reward": 1.0} if index % 2 else {"train/approx_kl": 0.4}

    fired = fired_rows("kl_high", row, n_rows=60)
    assert fired and not any(index % 2 for index in fired)


def test_a_window_counts_rows_a_share_of_them_and_a_part_of_the_training():
    window = FiringWindow(rows=3, span=0.5, share=0.6)
    verdicts = [window.add(index / 10, index != 1) for index in range(8)]
    assert verdicts == [False, False, False, False, False, True, True, True]
    assert not window.add(0.8, False)  # this row is fine


def test_a_resumed_training_that_is_longer_continues_the_windows_of_rules():
    """Half of 200 steps, which are a quarter of 400."""
    first, second = (RuleEngine([RULES["reward_stall"]], RuleFacts(total=total)) for total in (200, 400))
    for step in range(0, 101, 10):
        first.check(step, {"rollout/ep_rew_mean": 1.0})
    second.restore(first.state())
    second.rescale(200 / 400)
    course = second.context.score
    assert (course.n_since(0.25), course.n_since(0.11)) == (11, 5)
    assert course.improved_at == first.context.score.improved_at / 2
    window = FiringWindow(rows=2, span=0.5)
    window.add(0.0, True)
    window.add(0.4, True)
    window.rescale(0.5)
    assert [window.add(progress, True) for progress in (0.4, 0.6)] == [False, True]


@pytest.mark.parametrize(("latest", "solved"), [(460, True), (300, False), (500, True)])
def test_a_score_near_the_threshold_counts_as_solved(latest, solved):
    course = Score(475.0)
    for index, value in enumerate([20, 22, 21, 20, 23, 100, latest]):
        course.add(value, index / 10)
    assert course.solved == solved


def test_a_lucky_first_episode_is_not_what_was_lost():
    def row(index):
        return score([300, 40, 20, 25, 22][index] if index < 5 else 21)

    assert fired_rows("reward_drop", row) == []


def test_little_that_was_learned_is_not_called_lost():
    """The way to the threshold is 455."""
    assert fired_rows("reward_drop", lambda i: score(20 + 80 * (50 <= i < 120))) == []
    assert fired_rows("reward_drop", lambda i: score(20 + 100 * (50 <= i < 120)))


@pytest.mark.parametrize(("slow_fps", "fires"), [(90, True), (9_000, False)])
def test_a_slowdown_is_told_only_after_its_seconds(slow_fps, fires):
    """150 rows of 1,000 steps: 28 minutes, or 17 seconds."""

    def row(index):
        return {"time/fps_now": 100 * slow_fps if index < 50 else slow_fps}

    assert bool(fired_rows("fps_drop", row)) == fires


def test_bounds_allow_for_rounding():
    assert is_within(1.0000001, (0.0, 1.0)) and not is_within(1.2, (0.0, 1.0))


@pytest.mark.parametrize("rule_id", ["kl_low", "clip_low", "value_useless"])
def test_small_updates_of_a_policy_that_is_deterministic_ask_for_no_higher_learning_rate(rule_id):
    small = {"train/approx_kl": 0.0, "train/clip_fraction": 0.0, "train/explained_variance": 0.0}
    assert fired_rows(rule_id, lambda index: score(20, policy__entropy=0.6) | small)
    assert fired_rows(rule_id, lambda index: score(20, policy__entropy=0.001) | small) == []


#: Rows of real trainings (scripts/checks/alerts.py), with the numbers that these rules look at
RECORDED = json.loads((Path(__file__).parent / "recorded_rows.json").read_text(encoding="utf-8"))


def fired_in(run, rule_id):
    recorded = RECORDED[run]
    known = recorded["facts"]
    engine = RuleEngine([RULES[rule_id]], RuleFacts(**{**known, "algorithms": frozenset(known["algorithms"])}))
    for step, *values in recorded["rows"]:
        row = {name: value for name, value in zip(recorded["columns"], values, strict=True) if value is not None}
        if engine.check(step, row):
            return True
    return False


@pytest.mark.parametrize(
    ("run", "rule_id"),
    [
        # 14 rows, in which the score rises from 19 to 28
        ("short run of ppo_ext on CartPole-v1", "reward_stall"),
        # The first episodes that end are short and have a score of -10; later it rises from -180 to 7
        ("ppo_mask_ext on Taxi-v4", "reward_stall"),
        # The critic is constant, and the score rises to 182
        ("a2c_ext on CartPole-v1", "value_useless"),
        # Likewise to 306, slowly at first
        ("ppo_ext on CartPole-v1, n_steps 128, batch_size 256", "value_useless"),
        ("ppo_ext on CartPole-v1, n_steps 128, batch_size 256", "clip_low"),
    ],
)
def test_a_training_whose_score_rises_needs_no_alert(run, rule_id):
    assert not fired_in(run, rule_id)


@pytest.mark.parametrize(
    ("run", "rule_id"),
    [
        ("learning_rate 1e-6", "clip_low"),
        ("gamma 0 on FrozenLake-v1", "reward_stall"),
        ("log_std_init 5 on Pendulum-v1", "action_saturation"),
        ("vf_coef 0 on MountainCar-v0", "value_useless"),
    ],
)
def test_a_training_that_is_broken_is_found(run, rule_id):
    assert fired_in(run, rule_id)


def test_a_score_that_never_moves_is_a_stall_without_a_threshold_too():
    assert fired_rows("reward_stall", lambda index: score(20 + index % 3), facts(threshold=None))


@pytest.mark.parametrize(("success_rate", "fires"), [(0.98, True), (0.99, False)])
def test_a_task_is_solved_when_nearly_all_episodes_succeed(success_rate, fires):
    row = score(20, rollout__success_rate=success_rate)
    assert bool(fired_rows("reward_stall", lambda index: row)) == fires


@pytest.mark.parametrize(("latest", "solved"), [(0.88, True), (0.8, False)])
def test_a_solved_task_may_fall_back_a_little(latest, solved):
    course = Score(120.0)
    for index, way_made in enumerate([0, 0, 0, 0, 0, 0.96, latest]):
        course.add(20 + 100 * way_made, index / 10)
    assert course.solved == solved


def test_a_training_may_start_at_the_threshold():
    course = Score(475.0)
    course.add(475.0, 0.0)
    assert course.solved


def test_learning_again_what_was_lost_is_an_improvement():
    course = Score(475.0)
    for index, value in enumerate([20] * 12 + [300, 20, 250]):
        course.add(value, index / 20)
    assert course.improved_at == 14 / 20


def test_a_slightly_lower_score_is_not_where_improvement_starts_again():
    course = Score(475.0)
    for index, value in enumerate([20] * 12 + [300, 260, 300]):
        course.add(value, index / 20)
    assert course.improved_at == 12 / 20


def test_a_training_in_which_no_episode_ever_ends_is_noticed():
    rows = fired_rows("no_episode_end", lambda index: {"time/episodes": 0})
    assert rows and rows[-1] == N_ROWS - 1


def test_a_few_rows_are_not_called_a_stall():
    assert fired_rows("reward_stall", lambda index: score(20), RuleFacts(total=200 * STEPS_A_ROW, threshold=475.0))
    few = RuleFacts(total=12 * STEPS_A_ROW, threshold=475.0)
    assert fired_rows("reward_stall", lambda index: score(20), few, n_rows=12) == []


def test_a_score_rises_when_its_latest_values_are_above_all_before():
    course = Score(475.0)
    for index in range(40):
        course.add(20 + 3 * math.sin(index / 5), index / 80)  # it wanders, as means of 100 episodes do
    assert not course.rises(0.1)
    for index in range(40, 80):
        course.add(20 + 0.2 * (index - 30), index / 80)
    assert course.rises(0.1)


def test_many_scores_are_thinned_out():
    course = Score(475.0)
    for index in range(10_000):
        course.add(index / 100, index / 10_000)
    assert 200 < course.n_since(1.0) < 600
    assert course.n_since(0.5) == pytest.approx(course.n_since(1.0) / 2, rel=0.1)
    assert course.rises(0.1)
