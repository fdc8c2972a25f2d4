"""--trial-id: mistakes with studies are told, not passed over or answered with a traceback."""

import argparse

import optuna
import pytest
import rl_zoo3.train  # noqa: F401  puts the extended ExperimentManager in place
from rl_zoo3 import exp_manager
from rl_zoo3.hyperparams_opt import HYPERPARAMS_CONVERTER, HYPERPARAMS_SAMPLER

from sb3_ext.zoo.samplers import convert_ppo_ext_params, sample_ppo_ext_params


@pytest.fixture
def storage(tmp_path):
    return f"sqlite:///{tmp_path / 'study.db'}"


@pytest.fixture
def study(storage):
    study = optuna.create_study(storage=storage, study_name="mine")
    study.enqueue_trial({"x": 0.5})
    study.optimize(lambda trial: trial.suggest_float("x", 0, 1), n_trials=1)
    return study


def read(storage, study_name, trial_id, **kwargs):
    manager = exp_manager.ExperimentManager(
        argparse.Namespace(),
        "ppo_ext",
        "CartPole-v1",
        "logs",
        storage=storage,
        study_name=study_name,
        trial_id=trial_id,
        **kwargs,
    )
    return manager.read_hyperparameters()


@pytest.mark.parametrize(
    ("study_name", "trial_id", "said"),
    [
        ("mien", 0, "There is no study 'mien'"),
        ("mine", 7, "There is no trial 7 in the study 'mine'"),
        ("mine", 0, "another algorithm than ppo_ext"),
    ],
)
def test_a_mistake_is_told(study, storage, study_name, trial_id, said):
    with pytest.raises(ValueError, match=said):
        read(storage, study_name, trial_id)


@pytest.mark.parametrize("trial_id", [0, 1])
def test_the_command_lines_hyperparameters_beat_those_of_a_trial(storage, trial_id):
    study = optuna.create_study(storage=storage, study_name="mine")
    study.optimize(lambda trial: sample_ppo_ext_params(trial, 2, 1, {})["gamma"], n_trials=2)
    hyperparams, _ = read(storage, "mine", trial_id, hyperparams={"learning_rate": 0.5})
    sampled = convert_ppo_ext_params(study.trials[trial_id].params)
    assert hyperparams["learning_rate"] == 0.5
    assert hyperparams["gamma"] == sampled["gamma"]


@pytest.mark.parametrize("algo", ["a2c_ext", "ppo_ext", "ppo_lstm_ext", "reinforce"])
def test_a_trials_parameters_give_its_hyperparameters_again(algo):
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    for _ in range(10):
        trial = study.ask()
        sampled = HYPERPARAMS_SAMPLER[algo](trial, 2, 1, {})
        assert HYPERPARAMS_CONVERTER[algo](trial.params) == sampled
        if "kl_stop" in trial.params:
            assert sampled["target_kl"] == (trial.params["target_kl"] if trial.params["kl_stop"] else None)


def test_a_trial_needs_its_study():
    with pytest.raises(ValueError, match="--trial-id 3 needs --study-name and --storage"):
        read(None, None, 3)
