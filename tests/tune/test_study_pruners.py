"""Pruners of studies: what is reported, and when a trial is stopped."""

import numpy as np
import optuna
import pytest
from optuna.trial import TrialState

from sb3_ext.tune.pruners import PRUNERS, Pruning

optuna.logging.set_verbosity(optuna.logging.ERROR)
SEEDS, EVALUATIONS = 3, 10


def rising(height, seed) -> list[float]:
    """A learning curve."""
    noise = np.random.default_rng(seed).normal(0, 0.02, EVALUATIONS)
    return list(height * np.linspace(0.1, 1, EVALUATIONS) + noise)


def train(study, pruning, curves, until=None) -> int:
    """:return: number of evaluations until it was pruned, or until a kill"""
    trial = study.ask()
    scores: list[list[float]] = []
    for curve in curves:
        scores.append([])
        for score in curve:
            scores[-1].append(score)
            n = sum(map(len, scores))
            if n == until:
                study._storage.set_trial_state_values(trial._trial_id, TrialState.WAITING)
                return n
            if pruning.should_prune(study, trial, scores):
                study.tell(trial, state=TrialState.PRUNED)
                return n
    study.tell(trial, float(np.median([np.mean(curve) for curve in scores])))
    return n


def make(name, n_first=1):
    return optuna.create_study(direction="maximize", study_name="s"), Pruning(
        name, n_first=n_first, seeds=SEEDS, evaluations=EVALUATIONS
    )


def curves(height, first_seed=0):
    return [rising(height, first_seed + seed) for seed in range(SEEDS)]


@pytest.mark.parametrize("name", PRUNERS)
def test_bad_trials_are_pruned_and_the_best_is_not(name):
    study, pruning = make(name)
    for number in range(8):
        train(study, pruning, curves(1 - 0.01 * number, 10 * number))
    lengths = [train(study, pruning, curves(0.3, 100 * number)) for number in range(1, 9)]
    assert (min(lengths) < 15) == (name != "none")
    assert train(study, pruning, curves(1.5)) == SEEDS * EVALUATIONS


@pytest.mark.parametrize("name", PRUNERS)
def test_the_first_trials_are_never_pruned(name):
    study, pruning = make(name, n_first=8)
    assert [train(study, pruning, curves(1 - 0.1 * number)) for number in range(8)] == [SEEDS * EVALUATIONS] * 8


@pytest.mark.parametrize("name", PRUNERS)
def test_a_trial_that_was_killed_and_is_trained_again_is_pruned_at_the_same_evaluation(name):
    heights = [1, 0.8, 0.9, 0.7, 0.95, 0.9, 0.3, 0.5, 0.4, 0.6, 0.2, 0.9]

    def lengths(kills):
        study, pruning = make(name)
        for number, height in enumerate(heights):
            for until in kills:
                train(study, pruning, curves(height, 10 * number), until)
                if study.trials[-1].state.is_finished():
                    break
            else:
                train(study, pruning, curves(height, 10 * number))
        return [(trial.state, trial.intermediate_values) for trial in study.trials]

    assert lengths(kills=[3, 11, 2]) == lengths(kills=[])


@pytest.mark.parametrize("name", PRUNERS)
def test_a_trial_with_all_its_evaluations_is_not_pruned(name):
    study, pruning = make(name)
    for number in range(8):
        train(study, pruning, curves(1, 10 * number))
    assert not pruning.should_prune(study, study.ask(), curves(0.1))


def test_wilcoxon_compares_the_same_seeds_and_times():
    study, pruning = make("wilcoxon")
    trial = study.ask()
    pruning.should_prune(study, trial, [[1.0, 2.0, 3.0], [], [5.0]])
    assert study.trials[0].intermediate_values == {0: 1.0, 1: 2.0, 2: 3.0, 20: 5.0}


@pytest.mark.parametrize("name", ["hyperband", "median"])
def test_the_running_mean_has_the_same_seeds_and_times_in_all_trials(name):
    study, pruning = make(name)
    trial = study.ask()
    pruning.should_prune(study, trial, [[1.0, 2.0], [9.0]])
    assert study.trials[0].intermediate_values == {1: 1.0, 2: 1.5}
    pruning.should_prune(study, trial, [[1.0, 2.0, *[3.0] * 8], [9.0]])
    assert len(study.trials[0].intermediate_values) == 11
    assert study.trials[0].intermediate_values[11] == pytest.approx(36 / 11)
