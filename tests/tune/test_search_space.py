"""Search spaces: a section and Optuna's parameters are two ways to write the same configuration."""

import functools
import json
import re
from dataclasses import replace
from pathlib import Path

import optuna
import pytest
import rl_zoo3.train  # noqa: F401  registers environments and our algorithms
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st
from rl_zoo3.utils import ALGOS

from sb3_ext.common.usage_error import UsageError
from sb3_ext.tune.space import CantExpress, SearchSpace
from sb3_ext.zoo.config.check import check_section
from sb3_ext.zoo.config.files import find_section, hyperparameter_files
from sb3_ext.zoo.config.reader import read_config

CONTINUOUS = ("ars", "crossq", "ddpg", "sac", "td3", "tqc")


def start_of(algo):
    env_id = "Pendulum-v1" if algo in CONTINUOUS else "CartPole-v1"
    section = find_section(None, algo, env_id, False).values
    # RL Zoo's section for ppo_lstm names a policy of PPO's
    return env_id, {**section, "policy": "MlpLstmPolicy"} if algo == "ppo_lstm" else section


@functools.cache
def widened(algo):
    env_id, section = start_of(algo)
    return env_id, section, SearchSpace.read(None, algo, env_id).including(section)[0]


def read(text, tmp_path: Path, algo="ppo_ext", env_id="CartPole-v1"):
    path = tmp_path / "space.yml"
    path.write_text(text)
    return SearchSpace.read(path, algo, env_id)


def sample(space, seed):
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=seed))
    trial = study.ask()
    space.suggest(trial)
    return trial.params


def test_every_algorithm_has_a_default_space():
    assert [algo for algo in ALGOS if not SearchSpace.read(None, algo, "CartPole-v1").dimensions] == []


@pytest.mark.parametrize(("algo", "path"), hyperparameter_files().items())
def test_the_own_parameters_of_every_section_give_the_same_section(algo, path):
    default = SearchSpace.read(None, algo, "CartPole-v1")
    for env_id, section in read_config(path).sections.items():
        space, _ = replace(default, env_id=env_id).including(section)
        assert space.apply(section, space.params_of(section)) == section
        assert SearchSpace.from_dict(json.loads(json.dumps(space.as_dict()))) == space


@pytest.mark.parametrize("algo", ALGOS)
@given(seed=st.integers(0, 2**31))
@example(seed=19787791)  # ppo_lstm: a batch that is cut to the default
@settings(max_examples=10, phases=[Phase.explicit, Phase.generate])
def test_a_sample_can_be_trained_and_read_back(algo, seed):
    env_id, section, space = widened(algo)
    params = sample(space, seed)
    sampled = space.apply(section, params)
    assert [p for p in check_section(sampled, algo, env_id, str) if not p.is_warning or "batch_size" in p.text] == []
    read_back = space.params_of(sampled)
    for name, value in params.items():
        # Only a batch that is larger than the rollout is changed
        if "batch_size" not in name:
            assert read_back[name] == (pytest.approx(value, rel=1e-6) if isinstance(value, float) else value)
    assert list(read_back) == list(params)
    assert space.apply(section, read_back) == sampled


def test_a_value_outside_is_not_expressed_until_the_space_includes_it(tmp_path):
    space = read("learning_rate: {low: 1e-5, high: 1e-2, log: true}", tmp_path)
    section = {**start_of("ppo_ext")[1], "learning_rate": 0.03}
    with pytest.raises(CantExpress, match=r"learning_rate: 0\.03 is not from 1e-05 to 0\.01"):
        space.params_of(section)
    wider, changes = space.including(section)
    assert wider.params_of(section) == {"learning_rate": 0.03}
    assert changes == ["Search space: learning_rate is from 1e-05 to 0.03, log scale, to include 0.03."]


@pytest.mark.parametrize(
    ("given", "params"),
    [
        ("3e-4", {"learning_rate form": "constant", "learning_rate": 3e-4}),
        ("lin_0.001", {"learning_rate form": "lin", "learning_rate": 0.001}),
        ({"start": 0.001, "end": 0.0001}, {"learning_rate form": '{"end": 0.0001}', "learning_rate": 0.001}),
        ([[0, 0.1], [1, 0.001]], {"learning_rate form": "[[0, 0.1], [1, 0.001]]"}),
    ],
)
def test_a_schedule_is_a_parameter_besides_its_number(given, params, tmp_path):
    section = {**start_of("ppo_ext")[1], "learning_rate": given}
    space = read("learning_rate: {low: 1e-5, high: 1e-2, log: true, schedule: [constant, {end: 0.0001}]}", tmp_path)
    wider, _ = space.including(section)
    assert wider.params_of(section) == params
    assert wider.apply(section, params) == section


def test_numbers_are_parameters_whose_order_samplers_see(tmp_path):
    space = read("n_steps: [256, 32, 64, 128]\nn_epochs: [4, 10, 20]\nvalue_loss: [mse, huber]", tmp_path)
    section = {**start_of("ppo_ext")[1], "n_steps": 64, "n_epochs": 20}
    assert space.params_of(section) == {"log2(n_steps)": 6, "index(n_epochs)": 2, "value_loss": "mse"}


def test_a_condition_decides_which_parameters_there_are(tmp_path):
    space = read(
        "target_kl: {low: 0.01, high: 0.1, or: [null]}\n"
        "kl_stop_factor: {low: 1.0, high: 2.0, when: {target_kl: number}}",
        tmp_path,
    )
    section = {**start_of("ppo_ext")[1], "target_kl": 0.02, "kl_stop_factor": 1.2}
    assert "kl_stop_factor" in space.params_of(section)
    without = space.apply(section, {"target_kl form": None})
    assert "kl_stop_factor" not in without
    assert space.params_of(without) == {"target_kl form": None}
    assert {len(sample(space, seed)) for seed in range(9)} == {1, 3}


def test_values_that_only_a_condition_keeps_apart_are_no_mistake():
    section = {**start_of("ppo_ext")[1], "learning_rate": 0.001, "kl_adaptive_lr": 0.01}
    assert SearchSpace.read(None, "ppo_ext", "CartPole-v1").start(section) == section


@pytest.mark.parametrize(
    ("n_envs", "n_steps", "batch_size", "fitting"),
    [(8, 16, 1024, 128), (8, 16, 64, 64), (8, 100, 256, 200), (1, 16, 64, 16)],
)
def test_a_batch_divides_the_rollout(n_envs, n_steps, batch_size, fitting, tmp_path):
    space = read("n_steps: [16, 100]\nbatch_size: [64, 256, 1024]", tmp_path)
    section = {**start_of("ppo_ext")[1], "n_envs": n_envs}
    params = space.params_of({**section, "n_steps": n_steps, "batch_size": batch_size})
    assert space.apply(section, params)["batch_size"] == fitting


def test_a_base_space_is_changed_key_by_key(tmp_path):
    space = read("base: ppo_ext\nn_epochs: 7\nclip_range: keep\ngamma: [0.9, 0.99]", tmp_path)
    keys = {dimension.key: dimension for dimension in space.dimensions}
    assert "learning_rate" in keys and "n_epochs" not in keys and "clip_range" not in keys
    assert keys["gamma"].as_dict() == {"choices": [0.9, 0.99]}
    section = start_of("ppo_ext")[1]
    assert space.start(section) == {**section, "n_epochs": 7}


def test_paths_lead_into_wrappers_environments_and_python_code(tmp_path):
    space = read(
        "env_wrapper.PongShaping.terms.hit: {low: 0.0, high: 0.5}\n"
        "env_kwargs.previous_action: [false, true]\n"
        "policy_kwargs.activation_fn: [nn.Tanh, nn.ReLU]\n"
        "policy_kwargs.net_arch: [[64, 64], [256, 256]]",
        tmp_path,
        env_id="PongDeterministic-v5_objects",
    )
    section = find_section(None, "ppo_ext", "PongDeterministic-v5_objects", False).values
    section = {**section, "policy_kwargs": "dict(net_arch=[64, 64], log_std_init=-2)"}
    assert space.start(section) == section
    params = {"env_wrapper.PongShaping.terms.hit": 0.3, "env_kwargs.previous_action": False}
    params |= {"policy_kwargs.activation_fn": "nn.ReLU", "policy_kwargs.net_arch": "[256, 256]"}
    changed = space.apply(section, params)
    assert changed["env_wrapper"] == [{"sb3_ext.wrappers.PongShaping": {"terms": {"hit": 0.3}}}]
    assert changed["env_kwargs"] == {"previous_action": False}
    assert changed["policy_kwargs"] == "dict(net_arch=[256, 256], log_std_init=-2, activation_fn=nn.ReLU)"
    assert space.params_of(changed) == params


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("learning_rat: [1, 2]", ":1: PPOExt has no parameter 'learning_rat': did you mean 'learning_rate'?"),
        ("gamma: {low: 0.9, high: 0.99}\nseed: [0, 1]", ":2: seed can't be searched: it is set by --seed."),
        ("gamma: {low: 0.99, high: 0.9}", ":1: gamma: the range from low=0.99 to high=0.9 is empty."),
        ("gamma: {low: 0.9, high: 0.9}", "is empty"),
        ("ent_coef: {low: 0, high: 0.1, log: true}", "ent_coef: low=0 must be above 0 on a log scale."),
        ("gamma: {low: 0.9, high: 1.0, log: one_minus}", "gamma: high=1 must be below 1 with log: one_minus."),
        ("gamma: {low: 0.9, high: 0.99, log: 10}", "gamma: log=10 must be true, false or one_minus."),
        ("n_steps: []", "n_steps: choices=[] must be a list with an item."),
        ("n_steps: {low: 16}", "n_steps needs high."),
        ("n_steps: {low: 16.5, high: 32}", "n_steps: low=16.5 and high=32 must be whole numbers."),
        ("gamma: {low: 0, high: .inf}", "gamma: high=inf must be a number."),
        ("gamma: {low: small, high: 1}", "gamma: low='small' must be a number."),
        ("gamma: {hihg: 1}", "gamma has no key 'hihg': did you mean 'high'?"),
        ("gamma: {log: true}", "gamma needs either choices, or low and high."),
        ("gamma: {choices: [1], low: 0.5}", "gamma needs either choices, or low and high."),
        ("gamma: {low: 0.9, high: 1, schedule: [linn]}", "gamma: schedule='linn' must be constant, lin, or a mapping"),
        ("gamma: {low: 0.9, high: 1, or: null}", "gamma: or=None must be a list."),
        ("gamma: {low: 0.9, high: 1, when: x}", "gamma: when='x' must be a mapping of keys to values."),
        ("n_steps: [1, 2]\ngamma: {low: 0.9, high: 1, when: {n_step: 2}}", "did you mean 'n_steps'?"),
        ("base: ppo_ex", ":1: there is no default space 'ppo_ex': did you mean 'ppo_ext'?"),
        ("gamma: 0.99", "there is nothing to search"),
        ("", "is empty: expected a mapping of keys of a section to what is searched."),
        ("gamma: [1]\ngamma: [2]", ":2: gamma is there twice"),
    ],
)
def test_a_mistake_in_the_file_is_named(text, said, tmp_path):
    with pytest.raises(UsageError) as error:
        read(text, tmp_path)
    assert said in str(error.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("gamma: {low: 0.9, high: 1.5}", ":1: gamma=1.5 must be a number, at least 0 and at most 1"),
        ("n_steps: [64, many]", "n_steps='many' must be a whole number"),
        ("value_loss: [mse, hubber]", "value_loss='hubber' must be 'mse' or 'huber': did you mean 'huber'?"),
        ("gamma: {low: 0.9, high: 0.99, or: [all]}", "gamma='all' is not a schedule"),
        ("n_epochs: {low: 1, high: 9, schedule: [lin]}", "n_epochs='lin_1' must be a whole number"),
        ("policy_kwargs.net_arc: [[64], [32]]", "has no parameter 'net_arc': did you mean 'net_arch'?"),
        ("env_kwargs.sutton: [1, 2]", "CartPole-v1 has no argument 'sutton'"),
        (
            "env_wrapper.PongShaping.terms.hit: [0, 1]",
            "the section has no env_wrapper 'PongShaping': known: TimeLimit.",
        ),
        ("env_wrapper.TimLimit.max_episode_steps: [9]", "no env_wrapper 'TimLimit': did you mean 'TimeLimit'?"),
        ("env_wrapper.TimeLimit.max_step: [9]", "TimeLimit has no argument 'max_step': did you mean"),
        ("gamma: [0.9, 0.99]\nn_envs: 0", ":2: n_envs=0 must be a whole number, at least 1"),
        ("ext.metrics.evry: [1]", "evry"),
    ],
)
def test_a_value_that_the_section_can_not_have_is_named(text, said, tmp_path):
    section = {**start_of("ppo_ext")[1], "env_wrapper": {"gymnasium.wrappers.TimeLimit": {"max_episode_steps": 100}}}
    with pytest.raises(UsageError) as error:
        read(text, tmp_path).start(section)
    assert said in str(error.value)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(UsageError, match=r"none\.yml: can't be read"):
        SearchSpace.read(tmp_path / "none.yml", "ppo_ext", "CartPole-v1")


def test_the_example_of_the_docs_can_be_used(tmp_path):
    page = (Path(__file__).parents[2] / "docs" / "tuning_spaces.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"^```yml\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    space = read(example, tmp_path, env_id="PongDeterministic-v5_objects")
    section = space.start(find_section(None, "ppo_ext", "PongDeterministic-v5_objects", False).values)
    assert section["n_envs"] == "auto" and section["n_epochs"] == 10
    space, changes = space.including(section)
    assert changes == [], "the example does not contain the section"
    assert "env_wrapper.PongShaping.terms.hit" in space.params_of(section)
