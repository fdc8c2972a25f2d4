"""Errors for unknown names say which one was meant."""

import inspect

import pytest

from sb3_ext import REINFORCE, PPOExt
from sb3_ext.common.names import check_choice, nearest


def test_the_nearest_name_is_suggested():
    assert nearest("kl_stop_facto", ["kl_stop_factor", "gamma"]) == "did you mean 'kl_stop_factor'?"


def test_all_names_are_listed_when_none_is_near():
    assert nearest("xyz", ["gamma", "ent_coef"]) == "known: ent_coef, gamma."


def test_a_wrong_choice_of_another_type_still_gets_a_clear_error():
    with pytest.raises(ValueError, match=r"option=3 is not one of 'a', 'b'\."):
        check_choice("option", 3, ["a", "b"])


@pytest.mark.parametrize(
    ("algorithm", "wrong", "meant"),
    [
        (PPOExt, "kl_stop_facto", "kl_stop_factor"),
        (PPOExt, "n_epoch", "n_epochs"),
        (REINFORCE, "basline", "baseline"),
        (REINFORCE, "policy_kwarg", "policy_kwargs"),
    ],
)
def test_an_unknown_keyword_of_an_algorithm_gets_the_nearest_one(algorithm, wrong, meant):
    with pytest.raises(TypeError, match=f"{algorithm.__name__} has no parameter '{wrong}': did you mean '{meant}'"):
        algorithm("MlpPolicy", "CartPole-v1", **{wrong: 1})


@pytest.mark.parametrize("algorithm", [PPOExt, REINFORCE])
def test_an_unknown_keyword_of_load_is_not_silently_ignored(algorithm, tmp_path):
    algorithm("MlpPolicy", "CartPole-v1", n_steps=8, device="cpu").save(tmp_path / "model")
    with pytest.raises(TypeError, match="did you mean 'learning_rate'"):
        algorithm.load(tmp_path / "model", learning_rat=1e-3)
    assert algorithm.load(tmp_path / "model", learning_rate=0.5).learning_rate == 0.5


def test_the_signature_shows_the_parameters_of_ppo_too():
    parameters = inspect.signature(PPOExt).parameters
    assert {"kl_rollback", "learning_rate", "target_kl", "seed"} <= set(parameters)


def test_positional_arguments_are_those_of_ppo():
    assert PPOExt("MlpPolicy", "CartPole-v1", 1e-4, 64, 32).batch_size == 32
