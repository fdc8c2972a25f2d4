"""What a client may set of a training."""

import math

import pytest
import rl_zoo3.train  # noqa: F401  registers our algorithms

from sb3_ext.common.usage_error import UsageError
from sb3_ext.mcp.client_values import EXT_KEYS, REFUSED, parameter_words, plain_hyperparams
from sb3_ext.zoo.config.schema import section_parameters
from sb3_ext.zoo.config.train_command import read_pairs
from sb3_ext.zoo.options import ExtOptions
from sb3_ext.zoo.registry import algorithm_class

PLAIN = {
    "learning_rate": "lin_0.001",
    "clip_range": "1e-3",
    "gamma": 0.99,
    "normalize": True,
    "target_kl": None,
    "policy": "MlpPolicy",
    "policy_kwargs": {"net_arch": {"pi": [64, 64], "vf": [64]}, "activation_fn": "leaky_relu"},
    "env_kwargs": {"map_name": "8x8", "is_slippery": False},
}


def test_numbers_words_and_lists_pass_and_read_the_same_on_the_command_line():
    assert plain_hyperparams(PLAIN) == PLAIN
    flag, *pairs = parameter_words(PLAIN)
    assert flag == "-params" and read_pairs(pairs) == PLAIN


def test_options_of_ours_change_one_key_and_leave_the_others():
    given = {
        "ext": {"threshold": 400, "evaluation": {"every": 5000, "stop": "eval"}, "alerts": {"silence": ["fps_drop"]}}
    }
    assert plain_hyperparams(given) == {
        "ext.threshold": 400,
        "ext.evaluation.every": 5000,
        "ext.evaluation.stop": "eval",
        "ext.alerts.silence": ["fps_drop"],
    }


@pytest.mark.parametrize(
    "value",
    [
        *("os.system", "torch.nn.Tanh", "__import__('os').system('x')", "lambda: 1", "dict(a=1)", "a b", "", "x" * 60),
        *("/etc/passwd", "..", "~", "$HOME", "`id`", "-x", "ä", "1e400", "9" * 20, "nan", "os.5"),
        *(math.nan, math.inf, 10**400, -(10**8), b"x", {1: 2}, {"a.b": 1}, {"": 1}, [0] * 101, [[[[[[1]]]]]]),
        {"a": {"b": "x.y"}},
    ],
)
def test_code_paths_modules_and_huge_values_are_refused(value):
    with pytest.raises(UsageError) as raised:
        plain_hyperparams({"anything": value})
    assert len(str(raised.value)) < 300


@pytest.mark.parametrize(
    "given",
    [
        *({key: 1} for key in REFUSED),
        *({"ext": {key: True}} for key in sorted(set(ExtOptions.model_fields) - set(EXT_KEYS))),
        {"policy_kwargs": "word"},
        {"normalize": "word"},
        {"ext": True},
        {"n_envs": 257},
        {"n_envs": "257"},
        {"policy_kwargs": {"net_arch": [10_001]}},
        {"x; rm": 1},
        {"__init__": 1},
    ],
    ids=str,
)
def test_keys_that_are_not_for_clients_are_refused(given):
    with pytest.raises(UsageError):
        plain_hyperparams(given)


def test_the_keys_that_are_named_exist():
    known = {key for algo in ("ppo_ext", "dqn") for key in section_parameters(algorithm_class(algo))}
    assert set(REFUSED) <= known and set(EXT_KEYS) <= set(ExtOptions.model_fields)
