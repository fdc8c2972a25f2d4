"""Search spaces of ``-optimize``, and ``--trial-id``."""

import argparse

import optuna
import pytest
import rl_zoo3.train  # noqa: F401  puts the extended ExperimentManager in place
import yaml
from rl_zoo3 import exp_manager
from rl_zoo3.hyperparams_opt import HYPERPARAMS_CONVERTER, HYPERPARAMS_SAMPLER

from sb3_ext.zoo.config.check import check_section
from sb3_ext.zoo.registry import ALGORITHMS
from sb3_ext.zoo.samplers import OBSERVATIONS


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


def sample(study, algo, kind="vector"):
    trial = study.ask()
    trial.set_user_attr(OBSERVATIONS, kind)
    return trial, HYPERPARAMS_SAMPLER[algo](trial, 2, 1, {})


@pytest.mark.parametrize("trial_id", [0, 1])
def test_the_command_lines_hyperparameters_beat_those_of_a_trial(storage, trial_id):
    study = optuna.create_study(storage=storage, study_name="mine")
    sampled = [sample(study, "ppo_ext")[1] for _ in range(2)]
    hyperparams, _ = read(storage, "mine", trial_id, hyperparams={"learning_rate": 0.5})
    assert hyperparams["learning_rate"] == 0.5
    assert hyperparams["gamma"] == sampled[trial_id]["gamma"]


@pytest.fixture
def random_study():
    return optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))


KINDS = ["vector", "image", "discrete", "other"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("algo", ALGORITHMS)
def test_a_trials_parameters_give_its_hyperparameters_again(random_study, algo, kind):
    for _ in range(10):
        trial, sampled = sample(random_study, algo, kind)
        section = HYPERPARAMS_CONVERTER[algo](trial.params)
        assert {key: value for key, value in section.items() if key != "normalize"} == sampled
        assert yaml.safe_load(yaml.safe_dump(section)) == section


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("algo", ALGORITHMS)
def test_every_trial_can_be_trained(random_study, algo, kind):
    policy = ("Cnn" if kind == "image" else "Mlp") + ("LstmPolicy" if algo == "ppo_lstm_ext" else "Policy")
    fixed = {"n_envs": 1, "n_timesteps": 1000, "policy": policy}
    for _ in range(10):
        section = HYPERPARAMS_CONVERTER[algo](sample(random_study, algo, kind)[0].params)
        problems = check_section({**section, **fixed}, algo, "default", lambda path: str(path))
        assert [str(problem) for problem in problems if not problem.is_warning] == []


@pytest.mark.parametrize(
    ("kl_control", "unused"),
    [
        ("none", {"target_kl", "kl_stop_scope"}),
        ("stop", set()),
        ("rollback", set()),
        ("adaptive_lr", {"kl_stop_scope", "learning_rate_schedule"}),
    ],
)
def test_what_has_no_effect_is_not_sampled(random_study, kl_control, unused):
    random_study.enqueue_trial({"kl_control": kl_control})
    trial, _ = sample(random_study, "ppo_ext")
    assert {"target_kl", "kl_stop_scope", "learning_rate_schedule"} - trial.params.keys() == unused


@pytest.mark.parametrize(
    ("algo", "kind", "params", "section"),
    [
        (
            "ppo_ext",
            "vector",
            {"learning_rate": 1e-4, "learning_rate_schedule": "linear"},
            {"learning_rate": "lin_0.0001"},
        ),
        ("a2c_ext", "vector", {"ent_coef": 0.01, "ent_coef_schedule": "linear"}, {"ent_coef": "lin_0.01"}),
        (
            "reinforce",
            "vector",
            {"learning_rate": 1e-3, "learning_rate_schedule": "cosine"},
            {"learning_rate": {"start": 1e-3, "shape": "cosine"}},
        ),
        (
            "ppo_ext",
            "vector",
            {"kl_control": "rollback", "target_kl": 0.01},
            {"target_kl": 0.01, "kl_rollback": True, "kl_adaptive_lr": None},
        ),
        (
            "ppo_mask_ext",
            "vector",
            {"kl_control": "adaptive_lr", "target_kl": 0.01},
            {"target_kl": None, "kl_rollback": False, "kl_adaptive_lr": 0.01},
        ),
        (
            "ppo_ext",
            "vector",
            {"observations": "vec_normalize", "rewards": "popart"},
            {"normalize": {"norm_obs": True, "norm_reward": False}, "normalize_values": True},
        ),
        ("a2c_ext", "other", {"rewards": "vec_normalize"}, {"normalize": {"norm_obs": False, "norm_reward": True}}),
        ("reinforce", "image", {"rewards": "raw"}, {"normalize": False}),
    ],
)
def test_parameters_become_keys_of_a_section(random_study, algo, kind, params, section):
    random_study.enqueue_trial(params)
    trial, _ = sample(random_study, algo, kind)
    assert HYPERPARAMS_CONVERTER[algo](trial.params).items() >= section.items()


@pytest.mark.parametrize(
    ("algo", "kind", "params", "policy_kwargs"),
    [
        ("ppo_ext", "vector", {"observations": "policy"}, {"features_extractor_class": "NormalizedMlp"}),
        ("ppo_ext", "image", {"extractor": "ImpalaCNN"}, {"features_extractor_class": "ImpalaCNN"}),
        ("a2c_ext", "discrete", {"extractor": "DiscreteEmbedding"}, {"features_extractor_class": "DiscreteEmbedding"}),
        ("ppo_lstm_ext", "other", {"critic_memory": "shared"}, {"shared_lstm": True, "enable_critic_lstm": False}),
    ],
)
def test_parameters_become_arguments_of_the_policy(random_study, algo, kind, params, policy_kwargs):
    random_study.enqueue_trial(params)
    _, hyperparams = sample(random_study, algo, kind)
    assert hyperparams["policy_kwargs"].items() >= policy_kwargs.items()


def test_without_our_manager_nothing_is_sampled_that_it_would_have_to_apply(random_study):
    trial = random_study.ask()
    HYPERPARAMS_SAMPLER["ppo_ext"](trial, 2, 1, {})
    assert not {"observations", "rewards", "extractor"} & trial.params.keys()


def test_a_trial_of_sb3_ext_tune_has_its_whole_section(tmp_path):
    storage = str(tmp_path / "study.log")
    journal = optuna.storages.JournalStorage(optuna.storages.journal.JournalFileBackend(storage))
    study = optuna.create_study(storage=journal, study_name="mine")
    sections = [{"n_timesteps": 100, "policy": "MlpPolicy", "gamma": 0.5, "n_envs": n_envs} for n_envs in (2, 3)]
    for number, section in enumerate(sections):
        study.ask().set_user_attr("section", section)
        _, saved = read(storage, "mine", number, hyperparams={"gamma": 0.9, "ext.alerts": False})
        assert saved == {**section, "gamma": 0.9, "ext": {"alerts": False}}


def test_a_trial_needs_its_study():
    with pytest.raises(ValueError, match="--trial-id 3 needs --study-name and --storage"):
        read(None, None, 3)
