"""A section as text."""

import pytest
import rl_zoo3.train  # noqa: F401  registers our algorithms
import yaml
from torch import nn

from sb3_ext.common.usage_error import UsageError
from sb3_ext.zoo.config.write import section_text


def test_keys_are_in_canonical_order():
    section = {"policy": "MlpPolicy", "gamma": 0.9, "n_timesteps": 1e5, "learning_rate": 1e-5, "n_envs": 4}
    text = section_text("CartPole-v1", "ppo_ext", section)
    assert list(yaml.safe_load(text)["CartPole-v1"]) == ["n_envs", "n_timesteps", "policy", "learning_rate", "gamma"]
    assert yaml.safe_load(text) == {"CartPole-v1": section}


def test_classes_of_torch_become_python_that_rl_zoo_evaluates():
    policy_kwargs = {"net_arch": {"pi": [64], "vf": [64]}, "activation_fn": nn.ReLU}
    text = section_text("CartPole-v1", "ppo", {"policy_kwargs": policy_kwargs})
    assert eval(yaml.safe_load(text)["CartPole-v1"]["policy_kwargs"], {"nn": nn}) == policy_kwargs


def test_what_yaml_can_not_express_is_a_mistake():
    with pytest.raises(UsageError, match=r"learning_rate=<function .* can't be written as YAML"):
        section_text("CartPole-v1", "ppo_ext", {"learning_rate": lambda progress: progress})
