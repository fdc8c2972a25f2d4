"""What a section may contain comes from the constructors. All tuned sections, ours and RL Zoo's, are right."""

import inspect
import json

import pytest
import rl_zoo3.train  # noqa: F401  registers environments and our algorithms
from rl_zoo3 import exp_manager
from rl_zoo3.utils import ALGOS

from sb3_ext import PPOExt
from sb3_ext.zoo.config.check import check_file
from sb3_ext.zoo.config.files import hyperparameter_files
from sb3_ext.zoo.config.schema import section_parameters
from sb3_ext.zoo.registry import ALGORITHMS, STOCK_EQUIVALENT
from sb3_ext.zoo.upstream import SCHEDULES, SECTION_KEYS

#: Mistakes in RL Zoo's own files: a policy that is not recurrent, and a package that is not on PyPI
OF_RL_ZOO = ("policy='MlpPolicy' is not one of 'MlpLstmPolicy'", "there is no module 'ae'")
#: Masks are for discrete actions: these sections are for continuous ones
WITHOUT_MASKS = ("use_sde", "sde_sample_freq", "log_std_init")


def errors(path, algo):
    found = [problem.text for problem in check_file(path, algo) if not problem.is_warning]
    return [text for text in found if not any(known in text for known in OF_RL_ZOO)]


@pytest.mark.parametrize("algo", ALGOS)
def test_every_default_of_an_algorithm_is_allowed(algo):
    parameters = section_parameters(ALGOS[algo]).values()
    assert [parameter.problem(parameter.default) for parameter in parameters if parameter.has_default] == [None] * sum(
        parameter.has_default for parameter in parameters
    )


@pytest.mark.parametrize(("algo", "path"), hyperparameter_files().items())
def test_every_tuned_section_is_right(algo, path):
    assert errors(path, algo) == []


@pytest.mark.parametrize("algo", ALGORITHMS)
def test_our_own_files_get_no_warning_either(algo):
    assert check_file(hyperparameter_files()[algo]) == []


@pytest.mark.parametrize(("algo", "stock"), STOCK_EQUIVALENT.items())
def test_the_sections_of_a_stock_algorithm_are_right_for_its_extension(algo, stock):
    found = errors(hyperparameter_files()[stock], algo)
    assert [text for text in found if algo != "ppo_mask_ext" or not any(name in text for name in WITHOUT_MASKS)] == []


def test_a_new_keyword_of_an_algorithm_is_known_with_its_type_and_default():
    class Own(PPOExt):
        def __init__(self, policy, env, sharpness: int = 3):
            super().__init__(policy, env)

    sharpness = section_parameters(Own)["sharpness"]
    assert sharpness.default == 3 and sharpness.problem(4) is None
    assert sharpness.problem("high") == "sharpness='high' must be a whole number."


def test_every_key_of_rl_zoo_is_known():
    assert set(SECTION_KEYS) - {"ext"} <= set(section_parameters(PPOExt))
    assert f"for key in {json.dumps(SCHEDULES)}" in inspect.getsource(exp_manager)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("gamma", 1),
        ("gamma", "0.99"),
        ("gamma", {"start": 0.9, "end": 0.999}),
        ("learning_rate", "lin_0.001"),
        ("learning_rate", "1e-4"),
        ("learning_rate", [[0, 0.1], [1, 0]]),
        ("n_steps", "1e3"),
        ("batch_size", 64.0),
        ("clip_range_vf", None),
        ("kl_adaptive_lr_bounds", [1e-5, 1e-2]),
        ("fast", "alone"),
        ("max_grad_norm", float("inf")),
        ("clip_range", float("inf")),
    ],
)
def test_a_value_that_trains_is_allowed(key, value):
    assert section_parameters(PPOExt)[key].problem(value) is None


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("gamma", True),
        ("gamma", float("nan")),
        ("vf_coef", float("inf")),
        ("gamma", None),
        ("gamma", {"start": 0.9, "end": 1.1}),
        ("learning_rate", {"start": 0.1, "end": -0.1}),
        ("clip_range", "lin_-0.1"),
        ("n_steps", "0"),
        ("n_epochs", None),
        ("fast", "yes"),
        ("policy_kwargs", 3),
    ],
)
def test_a_value_that_can_not_train_is_not_allowed(key, value):
    assert section_parameters(PPOExt)[key].problem(value).startswith(key)


def test_stock_algorithms_read_numbers_only_as_rl_zoo_does():
    learning_rate = section_parameters(ALGOS["ppo"])["learning_rate"]
    assert learning_rate.problem("lin_0.001") is None and learning_rate.problem("1e-4") is not None
