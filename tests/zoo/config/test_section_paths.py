"""Values of a section by their paths."""

import pytest
import rl_zoo3.train  # noqa: F401  registers environments and our algorithms

from sb3_ext.zoo.config.section_paths import MISSING, NoSuchPath, default_of, read_value, remove_value, write_value

WRAPPED = {"env_wrapper": ["a.First", {"b.Second": {"x": 1, "deep": {"y": 2}}}]}
CODE = {"policy_kwargs": "dict(net_arch=dict(pi=[64], vf=[32]), optimizer_class=RMSpropTFLike, eps=(1, 2))"}


@pytest.mark.parametrize(
    ("section", "key", "value"),
    [
        ({"gamma": 0.9}, "gamma", 0.9),
        ({}, "gamma", MISSING),
        ({"env_kwargs": None}, "env_kwargs.x", MISSING),
        ({"ext": {"stages": [{"x": 1}]}}, "ext.stages.0.x", 1),
        (WRAPPED, "env_wrapper.Second.deep.y", 2),
        (WRAPPED, "env_wrapper.First.x", MISSING),
        ({"env_wrapper": "a.First"}, "env_wrapper.First.x", MISSING),
        (CODE, "policy_kwargs.net_arch.pi", [64]),
        (CODE, "policy_kwargs.optimizer_class", "RMSpropTFLike"),
        (CODE, "policy_kwargs.eps", [1, 2]),
        ({"normalize": "{'norm_obs': True}"}, "normalize", {"norm_obs": True}),
    ],
)
def test_a_value_is_read(section, key, value):
    assert read_value(section, key) == value


@pytest.mark.parametrize(
    ("section", "key", "value", "written"),
    [
        ({}, "env_kwargs.x.y", 1, {"env_kwargs": {"x": {"y": 1}}}),
        ({}, "policy_kwargs.net_arch", [8], {"policy_kwargs": {"net_arch": [8]}}),
        ({}, "policy_kwargs.activation_fn", "nn.ELU", {"policy_kwargs": "dict(activation_fn=nn.ELU)"}),
        (
            {"policy_kwargs": {"net_arch": [8]}},
            "policy_kwargs.activation_fn",
            "nn.ELU",
            {"policy_kwargs": "dict(net_arch=[8], activation_fn=nn.ELU)"},
        ),
        (
            CODE,
            "policy_kwargs.net_arch.pi",
            [128],
            {"policy_kwargs": "dict(net_arch=dict(pi=[128], vf=[32]), optimizer_class=RMSpropTFLike, eps=[1, 2])"},
        ),
        (WRAPPED, "env_wrapper.First.x", 3, {"env_wrapper": [{"a.First": {"x": 3}}, WRAPPED["env_wrapper"][1]]}),
        ({"ext": {"stages": [1, 2]}}, "ext.stages.1", 3, {"ext": {"stages": [1, 3]}}),
    ],
)
def test_a_value_is_written_and_the_rest_stays(section, key, value, written):
    before = repr(section)
    assert write_value(section, key, value) == written
    assert repr(section) == before, "the section itself was changed"


@pytest.mark.parametrize(
    ("section", "key", "rest"),
    [
        ({"gamma": 1, "x": 2}, "gamma", {"x": 2}),
        ({"x": 2}, "gamma", {"x": 2}),
        (WRAPPED, "env_wrapper.Second.deep", {"env_wrapper": ["a.First", {"b.Second": {"x": 1}}]}),
        ({"policy_kwargs": "dict(a=1, b=nn.ELU)"}, "policy_kwargs.a", {"policy_kwargs": "dict(b=nn.ELU)"}),
    ],
)
def test_a_value_is_removed(section, key, rest):
    assert remove_value(section, key) == rest


@pytest.mark.parametrize(
    ("section", "key", "said"),
    [
        (WRAPPED, "env_wrapper.Secnd.x", "no env_wrapper 'Secnd': did you mean 'Second'?"),
        ({}, "env_wrapper.First.x", "no env_wrapper 'First': it has none."),
        ({"env_kwargs": {"x": 1}}, "env_kwargs.x.y", "the section has 1 where 'y' is looked for"),
        ({"policy_kwargs": "dict("}, "policy_kwargs.x", "is not Python code"),
    ],
)
def test_a_path_through_nothing_is_named(section, key, said):
    with pytest.raises(NoSuchPath, match=said.replace("?", r"\?").replace("(", r"\(")):
        write_value(section, key, 1)


@pytest.mark.parametrize(
    ("algo", "key", "default"),
    [
        ("ppo", "gamma", 0.99),
        ("ppo", "n_envs", 1),
        ("ppo_ext", "kl_adaptive_lr_bounds", [1e-5, 1e-2]),
        ("ppo", "policy_kwargs.activation_fn", "nn.Tanh"),
        ("sac", "policy_kwargs.activation_fn", "nn.ReLU"),
        ("ppo_ext", "policy_kwargs.layer_norm", False),
        ("ppo_ext", "policy_kwargs.log_std_init", 0.0),
        ("ppo_ext", "policy_kwargs.nothing", MISSING),
        ("ppo_ext", "ext.native", True),
        ("ppo_ext", "env_kwargs.sutton_barto_reward", False),
        ("ppo_ext", "env_wrapper.TimeLimit.max_episode_steps", MISSING),
        ("ppo_ext", "env_wrapper.RescaleAction.nothing.deep", MISSING),
    ],
)
def test_a_missing_value_has_the_default_of_what_takes_it(algo, key, default):
    wrappers = ["gymnasium.wrappers.TimeLimit", "gymnasium.wrappers.RescaleAction"]
    section = {"policy": "MlpPolicy", "env_wrapper": wrappers}
    assert default_of(section, key, algo, "CartPole-v1") == default
