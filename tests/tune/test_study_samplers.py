"""Samplers of studies: the same trials whether or not a study was killed in between."""

import functools
import itertools
import os
import warnings

import optuna
import pytest
from optuna.storages import BaseStorage, InMemoryStorage
from optuna.trial import Trial, TrialState

from sb3_ext.common.usage_error import UsageError
from sb3_ext.tune.samplers import SAMPLERS, make_sampler, sampler_for, sampler_names
from sb3_ext.tune.storage import open_storage

optuna.logging.set_verbosity(optuna.logging.ERROR)
STOCHASTIC = [name for name in SAMPLERS if name != "llm"]


@pytest.fixture(autouse=True)
def quick_disk(monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda file: None)  # journals wait for the disk at each entry


def storage_of(kind, folder) -> BaseStorage:
    if kind == "memory":
        return InMemoryStorage()
    return open_storage(f"sqlite:///{folder}/study.db" if kind == "sqlite" else None, folder)


def suggest(trial: Trial, parameters=5) -> None:
    """:param parameters: the kill comes after so many"""
    for index in range(parameters):
        match index:
            case 0:
                trial.suggest_float("learning_rate", 1e-5, 1e-1, log=True)
            case 1:
                trial.suggest_int("n_epochs", 1, 20)
            case 2:
                trial.suggest_float("gamma", 0.9, 1.0)
            case 3:
                trial.suggest_categorical("kind", ["constant", "linear"])
            case 4 if trial.params["kind"] == "linear":
                trial.suggest_float("end", 0.0, 1.0)


def score(params) -> float:
    return -abs(params["learning_rate"] - 1e-3) - abs(params["gamma"] - 0.99) - 0.01 * params["n_epochs"]


def continue_study(kind, folder, name, until, kill_after=None) -> list[dict]:
    """
    With new objects, as in a new process.

    :param kill_after: parameters of the trial ``until``; 5 for a kill when it is trained
    """
    study = optuna.create_study(
        storage=storage_of(kind, folder), study_name="s", direction="maximize", load_if_exists=True
    )
    if not study.trials:
        start = {"learning_rate": 3e-4, "n_epochs": 10, "gamma": 0.99, "kind": "constant"}
        study.enqueue_trial(start, user_attrs={"proposed_by": "start"})
    for trial in study.get_trials(states=(TrialState.RUNNING,)):
        study._storage.set_trial_state_values(trial._trial_id, TrialState.WAITING)
    while True:
        proposed_by, study.sampler = sampler_for(study, [name], 7, n_startup=5)
        trial = study.ask()
        trial.set_user_attr("proposed_by", proposed_by)
        if trial.number == until and kill_after is not None:
            suggest(trial, kill_after)
            if kill_after == 5:
                trial.set_user_attr("section", {})
            return []
        suggest(trial)
        trial.set_user_attr("section", {})
        if trial.number % 6 == 5:
            trial.report(score(trial.params), 3)
            study.tell(trial, state=TrialState.PRUNED)
        else:
            study.tell(trial, score(trial.params))
        if trial.number == until:
            return [{"by": t.user_attrs["proposed_by"], **t.params} for t in study.trials]


@pytest.mark.parametrize(
    ("name", "kind"), [*((name, "journal") for name in STOCHASTIC), *((name, "sqlite") for name in ("tpe", "qmc"))]
)
def test_a_study_that_was_killed_has_the_same_trials_as_one_in_one_go(tmp_path, name, kind):
    expected = trials_in_one_go(name)
    # Opening SQLite takes long
    for until, kill_after in ((1, 2), (7, 0), (11, 1), (12, 4), (13, 5), (14, 3))[:: 3 if kind == "sqlite" else 1]:
        continue_study(kind, tmp_path, name, until, kill_after)
    assert continue_study(kind, tmp_path, name, len(expected) - 1) == expected


@functools.cache
def trials_in_one_go(name) -> list[dict]:
    return continue_study("memory", None, name, (18 if name == "gp" else 25) - 1)


@pytest.mark.parametrize("name", STOCHASTIC)
def test_trials_and_seeds_have_different_parameters(name):
    def first_parameters(seed, number):
        study = optuna.create_study(direction="maximize", sampler=make_sampler(name, seed, number, n_startup=5))
        trial = study.ask()
        return trial.suggest_float("gamma", 0, 1), trial.suggest_float("ent_coef", 0, 1)

    drawn = [first_parameters(seed, number) for seed in (0, 1) for number in (0, 1)]
    assert len({value for pair in drawn for value in pair}) == 8


def test_qmc_is_one_sobol_sequence_with_the_trials_number_as_index():
    study = optuna.create_study(direction="maximize")
    study.enqueue_trial({"x": 0.5, "y": 0.5})
    for _ in range(17):
        _, study.sampler = sampler_for(study, ["qmc"], 3, n_startup=5)
        trial = study.ask()
        trial.suggest_float("x", 0, 1), trial.suggest_float("y", 0, 1)
        study.tell(trial, 0.0)
    # Points 8…15 are a (0, 3, 2)-net: one in each eighth of both axes
    for name in ("x", "y"):
        assert sorted(int(8 * trial.params[name]) for trial in study.trials[8:16]) == list(range(8))


@pytest.mark.parametrize("name", STOCHASTIC)
def test_there_are_no_warnings(name, recwarn, tmp_path, caplog):
    optuna.logging.enable_propagation()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    warnings.simplefilter("always")
    try:
        continue_study("journal", tmp_path, name, 8)
    finally:
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        optuna.logging.disable_propagation()
    ours = [str(warning.message) for warning in recwarn if "Journal" not in str(warning.message)]
    assert ours == [] and caplog.messages == []


@pytest.mark.parametrize("name", ["tpe", "cmaes", "gp"])
def test_samplers_that_learn_beat_random(name):
    def late(by):
        return sum(score(trial) for trial in trials_in_one_go(by)[10:18]) / 8

    assert late(name) > late("random") + 0.02


def test_an_enqueued_trial_is_no_solution_of_cmaes():
    study = optuna.create_study(direction="maximize")
    for number in range(4):
        if number == 3:
            study.enqueue_trial({"gamma": 0.95})
        _, study.sampler = sampler_for(study, ["cmaes"], 0, n_startup=1)
        trial = study.ask()
        suggest(trial)
        study.tell(trial, score(trial.params))
    sampled_by_cmaes = ["cmawm:generation" in trial.system_attrs for trial in study.trials]
    assert sampled_by_cmaes == [False, True, True, False]


def test_samplers_take_turns_by_the_number_of_the_trial():
    study = optuna.create_study(direction="maximize")
    names = []
    for _ in range(4):
        name, study.sampler = sampler_for(study, sampler_names("qmc, random"), 0, n_startup=5)
        study.tell(study.ask(), 0.0)
        names.append(name)
    assert names == ["qmc", "random", "qmc", "random"]


def test_tpe_takes_the_turn_of_a_language_model_that_proposed_nothing():
    study = optuna.create_study(direction="maximize")
    assert sampler_for(study, ["llm"], 0, n_startup=5)[0] == "tpe"
    study.enqueue_trial({"gamma": 0.95}, user_attrs={"proposed_by": "llm"})
    assert sampler_for(study, ["llm"], 0, n_startup=5)[0] == "llm"


def test_two_schedulers_propose_different_trials(tmp_path):
    studies = [
        optuna.create_study(storage=open_storage(None, tmp_path), study_name="s", load_if_exists=True) for _ in range(2)
    ]
    for study, _ in itertools.product(studies, range(8)):
        _, study.sampler = sampler_for(study, ["tpe"], 0, n_startup=2)
        suggest(study.ask())
    assert len({trial.params["learning_rate"] for trial in studies[0].trials}) == 16


@pytest.mark.parametrize(("value", "message"), [("tpa", "did you mean 'tpe'"), ("tpe,", "'' is not one of tpe")])
def test_an_unknown_sampler_is_an_error_with_the_nearest_name(value, message):
    with pytest.raises(UsageError, match=message):
        sampler_names(value)
