"""Studies: which trials there are, what is stored, what a kill or a mistake leaves behind. Trainings are computed."""

import argparse
import io
import os
import time

import pytest
from computed_pool import ComputedPool
from optuna.trial import TrialState
from rich.console import Console

from sb3_ext.common.usage_error import UsageError
from sb3_ext.tune.confirm import _rank_test, compare, select
from sb3_ext.tune.live import LiveTable
from sb3_ext.tune.lock import study_lock
from sb3_ext.tune.scheduler import Budget, Scheduler
from sb3_ext.tune.settings import StudySettings
from sb3_ext.tune.space import SearchSpace
from sb3_ext.tune.storage import open_storage
from sb3_ext.tune.study import First, TuneStudy, open_study
from sb3_ext.tune.tuning import Tuning

SECTION = {"n_timesteps": 1000, "policy": "MlpPolicy", "learning_rate": 0.1, "n_steps": 64}


@pytest.fixture
def space(tmp_path):
    path = tmp_path / "space.yml"
    path.write_text("learning_rate: {low: 1e-5, high: 0.1, log: true}\nn_steps: [32, 64, 128]\n", encoding="utf-8")
    return SearchSpace.read(path, "ppo_ext", "CartPole-v1")


class Made:
    """A study in a folder; made again, it continues."""

    def __init__(self, folder, space, pruner="none", **changes):
        known = {"algo": "ppo_ext", "env": "CartPole-v1", "source": {}, "start": SECTION, "space": space.as_dict()}
        settings = StudySettings(**{**known, "timesteps": 1000, "evaluations": 4, "pruner": pruner, **changes})
        folder.mkdir(exist_ok=True)
        self.lock = lambda: study_lock(None, folder, "s")
        study = open_study(open_storage(None, folder), "s", settings, [First("start", SECTION)], self.lock)
        self.study = TuneStudy(study, settings, self.lock, n_startup=4)
        self.table = LiveTable(Console(file=io.StringIO()))

    def search(self, pool, trials=6, **limits):
        with self.study:
            Scheduler(self.study, pool, Budget(trials, **limits), self.table).search()
        return self

    def trials(self):
        kept = ("section", "proposed_by", "curve 0", "curve 1", "curve 2", "error")
        return [
            (t.number, t.state, t.params, t.value, t.intermediate_values, {k: t.user_attrs.get(k) for k in kept})
            for t in self.study.trials()
        ]


@pytest.fixture
def make(tmp_path, space, monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda file: None)  # journals wait for the disk at each entry
    return lambda name="study", *args, **kwargs: Made(tmp_path / name, space, *args, **kwargs)


def test_the_first_trial_is_the_start_and_each_trial_has_all_seeds(make):
    made = make().search(ComputedPool())
    trials = made.study.trials()
    assert [trial.state for trial in trials] == [TrialState.COMPLETE] * 6
    assert trials[0].user_attrs["section"] == SECTION and trials[0].user_attrs["proposed_by"] == "start"
    assert all({"curve 0", "curve 1", "curve 2"} <= set(trial.user_attrs) for trial in trials)
    assert made.study.best(1)[0].score == max(trial.value for trial in trials)


@pytest.mark.parametrize("pruner", ["none", "median", "hyperband", "wilcoxon"])
def test_the_same_seed_gives_the_same_trials(make, pruner):
    one, other = (make(name, pruner).search(ComputedPool(), trials=14) for name in ("one", "other"))
    assert one.trials() == other.trials()
    if pruner != "none":
        assert any(trial.state == TrialState.PRUNED for trial in one.study.trials())


def test_another_seed_gives_other_trials(make):
    one, other = make("one").search(ComputedPool()), make("other", seed=1).search(ComputedPool())
    assert [t.params for t in one.study.trials()[1:]] != [t.params for t in other.study.trials()[1:]]


@pytest.mark.parametrize("pruner", ["median", "hyperband", "wilcoxon"])
@pytest.mark.parametrize("kill_after", [1, 7, 16, 33, 60])
def test_an_interrupted_study_continues_with_the_same_trials(make, pruner, kill_after):
    whole = make("whole", pruner).search(ComputedPool(), trials=10)
    with pytest.raises(KeyboardInterrupt):
        make("cut", pruner).search(ComputedPool(kill_after=kill_after), trials=10)
    assert make("cut", pruner).search(ComputedPool(), trials=10).trials() == whole.trials()


def test_seeds_that_were_finished_before_an_interrupt_are_not_trained_again(make):
    with pytest.raises(KeyboardInterrupt):
        make().search(ComputedPool(kill_after=7))
    pool = ComputedPool()
    make().search(pool, trials=1)
    assert pool.started == [((0, 1), 1), ((0, 2), 2)]


def test_a_lost_training_starts_again(make):
    whole = make("whole").search(ComputedPool())
    pool = ComputedPool(lose=[(2, 1)])
    assert make("lost").search(pool).trials() == whole.trials()
    assert [key for key, _ in pool.started].count((2, 1)) == 2


def test_several_workers_train_several_trials_and_the_last_ones_seeds_at_once(make):
    pool = ComputedPool(size=4)
    made = make().search(pool, trials=3)
    assert [trial.state for trial in made.study.trials()] == [TrialState.COMPLETE] * 3
    assert [key for key, _ in pool.started][:4] == [(0, 0), (1, 0), (2, 0), (0, 1)]


def test_the_number_of_steps_ends_a_study(make):
    made = make().search(ComputedPool(), trials=None, steps=6000)
    assert len(made.study.trials()) == 2


def test_a_time_that_is_over_starts_nothing_and_a_longer_one_goes_on(make):
    made = make().search(ComputedPool(), trials=None, seconds=1e-9)
    assert [trial.state for trial in made.study.trials()] == [TrialState.WAITING]
    assert len(make().search(ComputedPool(), trials=2).study.trials(TrialState.COMPLETE)) == 2


def test_a_start_that_cant_be_trained_ends_the_study_and_leaves_it_usable(make):
    with pytest.raises(UsageError, match="learning_rate: no"):
        make().search(ComputedPool(refuse=lambda section: True))
    assert len(make().search(ComputedPool()).study.trials(TrialState.COMPLETE)) == 6


def test_a_proposal_that_cant_be_trained_is_a_failed_trial(make):
    first = []

    def refuse(section):
        first.append(section["learning_rate"])
        return section["learning_rate"] == next((rate for rate in first if rate != 0.1), None)

    made = make().search(ComputedPool(refuse=refuse))
    states = [trial.state for trial in made.study.trials()]
    assert states.count(TrialState.FAIL) == 1 and states.count(TrialState.COMPLETE) == 5
    assert made.study.trials(TrialState.FAIL)[0].user_attrs["error"] == "learning_rate: no."


def test_a_diverged_training_counts_with_what_it_had(make):
    healthy = make("healthy").search(ComputedPool(), trials=2).study.trials()[1]
    diverged = make().search(ComputedPool(diverge=lambda section: section != SECTION), trials=2).study.trials()[1]
    assert diverged.state == TrialState.COMPLETE and diverged.user_attrs["error"] == "NaN"
    assert diverged.params == healthy.params and diverged.value < healthy.value


def test_the_comparison_uses_seeds_that_the_search_has_not_seen(make):
    made = make().search(ComputedPool(), trials=8)
    pool = ComputedPool(size=2)
    best = select(made.study, pool, made.table, 3)
    comparison = compare(made.study, pool, made.table, best, 5)
    assert comparison.is_better and len(comparison.best) == len(comparison.start) == 5
    assert min(comparison.best) > max(comparison.start)
    searched = {made.study.settings.real_seed(seed) for seed in range(3)}
    assert searched.isdisjoint(seed for _, seed in pool.started)


def test_the_start_is_not_better_than_itself(make):
    made = make().search(ComputedPool(), trials=1)
    comparison = compare(made.study, ComputedPool(), made.table, made.study.best(1)[0], 5)
    assert not comparison.is_better


def test_an_interrupted_comparison_goes_on(make):
    made = make().search(ComputedPool(), trials=3)
    best = made.study.best(1)[0]
    with pytest.raises(KeyboardInterrupt):
        compare(made.study, ComputedPool(kill_after=12), made.table, best, 3)
    pool = ComputedPool()
    compare(made.study, pool, made.table, best, 3)
    assert len(pool.started) == 4


def test_a_study_of_something_else_is_refused(make):
    settings = make().study.settings
    with pytest.raises(UsageError, match="is of ppo_ext on CartPole-v1, not of dqn on CartPole-v1"):
        settings.check_same({"algo": "dqn", "env": "CartPole-v1"}, "s")
    with pytest.raises(UsageError, match="has timesteps 1000, not 5"):
        settings.check_same({"algo": "ppo_ext", "env": "CartPole-v1", "timesteps": 5}, "s")


def test_only_one_scheduler_makes_the_comparison(make):
    made = make()
    with made.study.claimed("final") as other:
        assert other is None
    made.study.study.set_user_attr("claim final", "gone-1-1")
    with made.study.claimed("final") as other:
        assert other is None, "its owner is gone"
    with made.study:
        with made.study.claimed("final"), made.study.claimed("final") as other:
            assert other is not None


class Watched(LiveTable):
    def __init__(self):
        super().__init__(Console(file=io.StringIO()))
        self.views = []

    def update(self, view):
        self.views.append(view)


def test_the_time_that_is_left_is_estimated_from_trials_that_have_ended(make):
    made = make()
    made.table = Watched()
    made.search(ComputedPool(size=2), trials=6)
    views = made.table.views
    assert all(view.remaining is None for view in views if not view.finished)
    assert all(view.remaining > 0 for view in views if view.finished and view.running)


def test_three_seeds_must_all_be_better_and_a_tie_is_not():
    assert _rank_test([3, 4, 5], [0, 1, 2]) == pytest.approx(0.05)
    assert _rank_test([3, 4, 1.5], [0, 1, 2]) > 0.05
    assert _rank_test([500] * 5, [500] * 5) > 0.5


def test_the_end_gets_less_than_half_of_the_time_and_fewer_finalists_if_it_is_short(make, tmp_path):
    made = make().search(ComputedPool(), trials=4)

    def tuning(minutes):
        # A computed training takes one second
        args = argparse.Namespace(minutes=minutes, finalists=3, fresh_seeds=5)
        return Tuning(args, made.study, ComputedPool(size=2), tmp_path, made.table, time.monotonic())

    assert tuning(None)._reserve() == 0 and tuning(None)._n_finalists() == 3
    assert tuning(10)._reserve() == 3 * 3 + 2 * 5 and tuning(10)._n_finalists() == 3
    assert tuning(0.1)._reserve() == pytest.approx(0.4 * 6 * 2)
    assert tuning(0.14)._n_finalists() == 2 and tuning(0.1)._n_finalists() == 1


def test_finalists_are_judged_by_all_their_seeds(make):
    made = make().search(ComputedPool(), trials=4)
    first, second = made.study.best(2)
    # The pool's curves of new seeds differ little: a bad seed of the search must count too
    failed = [curve._replace(points=tuple(p._replace(score=-1000.0) for p in curve.points)) for curve in first.curves]
    made.study.best = lambda n: [first._replace(curves=tuple(failed)), second]
    assert select(made.study, ComputedPool(), made.table, 2).number == second.number
