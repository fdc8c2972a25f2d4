"""Runs that differ only in their seed are one group, and groups are compared with honest statistics."""

import numpy as np
import pytest
import yaml
from report_folders import zoo_run

from sb3_ext.runs.record import read_record
from sb3_ext.runs.report.compare import compare, group_runs


@pytest.fixture
def make_run(tmp_path):
    """Makes and reads a run of RL Zoo whose score rises to a level."""

    def make(seed=0, level=100.0, algo="ppo_ext", config=None, **args):
        folder = tmp_path / f"{algo}_{len(list(tmp_path.iterdir()))}"
        zoo_run(folder, np.linspace(0, level, 20), algo=algo, seed=seed, **args)
        path = folder / "CartPole-v1" / "config.yml"
        path.write_text(yaml.safe_dump({"n_timesteps": 100_000, "policy": "MlpPolicy", **(config or {})}))
        return read_record(folder)

    return make


def labels(runs, by=()):
    return [(group.label, len(group.runs)) for group in group_runs(runs, by)[0]]


def test_seeds_of_a_training_are_one_group(make_run):
    assert labels([make_run(seed) for seed in range(3)]) == [("ppo_ext", 3)]


def test_algorithms_are_told_apart(make_run):
    assert labels([make_run(), make_run(algo="dqn")]) == [("ppo_ext", 1), ("dqn", 1)]


def test_the_label_says_which_hyperparameter_differs(make_run):
    runs = [make_run(seed, config={"gamma": gamma}) for seed in (1, 2) for gamma in (0.9, 0.99)]
    assert labels(runs) == [("ppo_ext, gamma 0.9", 2), ("ppo_ext, gamma 0.99", 2)]


def test_nested_hyperparameters_are_told_apart(make_run):
    runs = [make_run(config={"policy_kwargs": {"net_arch": [size]}}) for size in (8, 64)]
    assert labels(runs) == [("ppo_ext, policy_kwargs.net_arch [8]", 1), ("ppo_ext, policy_kwargs.net_arch [64]", 1)]


def test_numbers_that_are_written_differently_are_equal(make_run):
    assert labels([make_run(1, config={"n_steps": 1000}), make_run(2, config={"n_steps": 1e3})]) == [("ppo_ext", 2)]


def test_what_is_only_shown_makes_no_difference(make_run):
    assert labels([make_run(1), make_run(2, config={"ext": {"table": False}})]) == [("ppo_ext", 2)]


def test_what_the_command_line_overrides_counts(make_run):
    assert labels([make_run(1), make_run(2, env_kwargs={"wind": 3})])[1] == ("ppo_ext, env_kwargs.wind 3", 1)


def test_other_hyperparameters_can_be_ignored(make_run):
    runs = [make_run(seed, config={"gamma": 0.9 + seed / 100}) for seed in range(3)]
    assert labels(runs, by=["algo"]) == [("ppo_ext", 3)]


def test_each_run_can_stand_by_itself(make_run):
    assert [n for _, n in labels([make_run(1), make_run(2)], by=["folder"])] == [1, 1]


def test_an_unknown_setting_is_answered_with_the_known_ones(make_run):
    with pytest.raises(ValueError, match=r"--by gama: no run has this setting. Known: algo, env, .*policy"):
        group_runs([make_run()], by=["gama"])


def test_the_same_seed_counts_once(make_run):
    groups, notes = group_runs([make_run(1), make_run(1), make_run(2)])
    assert len(groups[0].runs) == 2 and notes == ["ppo_ext: 1 more of the same seeds don't count."]


def test_runs_that_did_not_finish_are_told(make_run):
    runs = [make_run(seed) for seed in range(2)]
    (runs[0].folder / "run.json").write_text('{"state": "running"}')
    assert group_runs([read_record(run.folder) for run in runs])[1] == [
        "ppo_ext: 1 of 2 runs did not finish, or have not yet."
    ]


def compared(make_run, ours, theirs):
    runs = [make_run(seed, level) for seed, level in enumerate(theirs)]
    runs += [make_run(seed, level, algo="dqn") for seed, level in enumerate(ours)]
    return compare(group_runs(runs)[0])


def test_the_score_is_the_interquartile_mean_with_its_interval(make_run):
    first, _ = compared(make_run, [1.0], [0.0, 10.0, 20.0, 1000.0])
    assert first.score.value == pytest.approx(15.0) and first.score.low < 15.0 < first.score.high
    assert first.better is None and first.verdict == "baseline"


@pytest.mark.parametrize(
    ("ours", "theirs", "verdict"),
    [
        ([10, 11, 12, 13, 14], [0, 1, 2, 3, 4], "better"),
        ([0, 1, 2, 3, 4], [10, 11, 12, 13, 14], "worse"),
        ([1, 2, 3, 4, 5], [1.5, 2.5, 3.5, 4.5, 0.5], "no clear difference"),
        ([10, 11], [0, 1, 2, 3, 4], "too few seeds to tell"),
        ([10], [0, 1, 2, 3, 4], "too few seeds to tell"),
        ([10, 11, 12, 13, 14], [0, 1], "too few seeds to tell"),
    ],
)
def test_the_verdict_depends_on_the_probability_of_improvement(make_run, ours, theirs, verdict):
    _, second = compared(make_run, ours, theirs)
    assert second.verdict == verdict


def test_steps_to_the_threshold_are_a_median_of_the_runs_that_reached_it(make_run):
    first, _ = compared(make_run, [1], [950, 950, 100])  # half way to 950, a run has 475: CartPole's threshold
    assert first.reached == 2 and first.steps == pytest.approx(50_000, rel=0.1)


def test_efficiency_is_the_mean_score_over_the_training(make_run):
    first, _ = compared(make_run, [1], [100, 100])
    assert first.efficiency.value == pytest.approx(50, rel=0.05)
