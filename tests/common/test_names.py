"""Errors for unknown names say which one was meant."""

import inspect
import re

import pytest

from sb3_ext import REINFORCE, PPOExt
from sb3_ext.common.names import check_choice, check_keywords, nearest


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


def test_positional_arguments_are_those_of_ppo():
    assert PPOExt("MlpPolicy", "CartPole-v1", 1e-4, 64, 32).batch_size == 32


@pytest.mark.parametrize("algorithm", [PPOExt, REINFORCE])
def test_every_parameter_is_documented_once_and_in_order(algorithm):
    names = [name for name in inspect.signature(algorithm).parameters if not name.startswith("_")]
    assert re.findall(r":param (\w+):", algorithm.__doc__) == names


def test_the_extras_of_ppo_are_given_by_name_and_all_of_reinforce_beyond_its_own():
    kinds = {name: parameter.kind for name, parameter in inspect.signature(PPOExt).parameters.items()}
    assert kinds["kl_rollback"] is kinds["fast"] is inspect.Parameter.KEYWORD_ONLY
    assert kinds["learning_rate"] is kinds["seed"] is inspect.Parameter.POSITIONAL_OR_KEYWORD
    kinds = {name: parameter.kind for name, parameter in inspect.signature(REINFORCE).parameters.items()}
    assert kinds["seed"] is inspect.Parameter.KEYWORD_ONLY
    assert kinds["baseline"] is inspect.Parameter.POSITIONAL_OR_KEYWORD


@pytest.mark.parametrize("name", ["gae_lambda", "supported_action_spaces"])
def test_a_parameter_that_is_not_for_the_caller_is_refused(name):
    with pytest.raises(TypeError, match=f"REINFORCE has no parameter '{name}'"):
        REINFORCE("MlpPolicy", "CartPole-v1", **{name: 1})


def test_a_wrong_choice_gets_the_nearest_or_all():
    with pytest.raises(ValueError, match=r"option='lefd' is not one of 'left', 'right': did you mean 'left'\?"):
        check_choice("option", "lefd", ["left", "right"])
    with pytest.raises(ValueError, match=r"option='xyz' is not one of 'left', 'right'\.$"):
        check_choice("option", "xyz", ["left", "right"])
    check_choice("option", "left", ["left", "right"])


def test_private_names_are_not_suggested():
    with pytest.raises(TypeError, match=r"known: seed\.$"):
        check_keywords("Mine", {"_xyz": 1}, ["self", "args", "kwargs", "_xy", "seed"])


def test_a_subclass_is_asked_for_its_own_parameters_too():
    class Mine(PPOExt):
        def __init__(self, *args, temperature=1.0, **kwargs):
            super().__init__(*args, **kwargs)

    with pytest.raises(TypeError, match="Mine has no parameter 'temperatur': did you mean 'temperature'"):
        Mine("MlpPolicy", "CartPole-v1", temperatur=2.0)


@pytest.mark.parametrize(
    ("policy_kwargs", "meant"),
    [
        ({"net_arc": [8]}, "policy_kwargs of MlpPolicy has no parameter 'net_arc': did you mean 'net_arch'"),
        ({"layer_nrom": True}, "did you mean 'layer_norm'"),
        (
            {"features_extractor_class": "NormalizedMlp", "features_extractor_kwargs": {"clp": 5}},
            "features_extractor_kwargs of NormalizedMlp has no parameter 'clp': did you mean 'clip'",
        ),
    ],
)
def test_a_typo_in_policy_kwargs_gets_the_nearest_name(policy_kwargs, meant):
    with pytest.raises(TypeError, match=meant):
        PPOExt("MlpPolicy", "CartPole-v1", policy_kwargs=policy_kwargs)


def test_a_typo_in_the_policys_name_gets_the_nearest_name():
    with pytest.raises(ValueError, match="did you mean 'MlpPolicy'"):
        PPOExt("MlpPolic", "CartPole-v1")


def test_an_extractor_for_images_refuses_vectors():
    with pytest.raises(ValueError, match="ImpalaCNN is for images"):
        PPOExt("MlpPolicy", "CartPole-v1", policy_kwargs={"features_extractor_class": "ImpalaCNN"})


@pytest.mark.parametrize(
    "flags", [{"fast": "no"}, {"kl_rollback": "no", "target_kl": 0.1}, {"normalize_values": "yes"}]
)
def test_a_flag_in_quotes_is_refused(flags):
    with pytest.raises(ValueError, match="must be True or False"):
        PPOExt("MlpPolicy", "CartPole-v1", **flags)


def test_a_flag_in_quotes_is_refused_by_load_too(tmp_path):
    PPOExt("MlpPolicy", "CartPole-v1", n_steps=64, device="cpu").save(tmp_path / "model")
    with pytest.raises(ValueError, match="fast='no' must be True or False"):
        PPOExt.load(tmp_path / "model", fast="no")


def test_an_infinite_gradient_norm_switches_clipping_off():
    assert PPOExt("MlpPolicy", "CartPole-v1", max_grad_norm=float("inf")).max_grad_norm == float("inf")


def test_a_number_that_is_left_out_is_told():
    with pytest.raises(ValueError, match="ent_coef=None is not a schedule"):
        PPOExt("MlpPolicy", "CartPole-v1", ent_coef=None)
