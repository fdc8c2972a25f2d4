"""Search spaces: a section and Optuna's parameters are two ways to write the same configuration."""

import functools
import json
from pathlib import Path

import optuna
import pytest
import rl_zoo3.train  # noqa: F401  registers environments and our algorithms
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from rl_zoo3.utils import ALGOS

from sb3_ext.tune.space import CantExpress, SearchSpace
from sb3_ext.zoo.config.check import check_section
from sb3_ext.zoo.config.files import find_section

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


@pytest.mark.parametrize("algo", ALGOS)
def test_a_sections_own_parameters_give_the_same_section(algo):
    _, section, space = widened(algo)
    assert space.apply(section, space.params_of(section)) == section


@pytest.mark.parametrize("algo", ALGOS)
@given(seed=st.integers(0, 2**31))
@settings(max_examples=10, phases=[Phase.generate])
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


@pytest.mark.parametrize("algo", ALGOS)
def test_a_space_survives_json(algo):
    space = widened(algo)[-1]
    assert SearchSpace.from_dict(json.loads(json.dumps(space.as_dict()))) == space


def test_a_value_outside_is_not_expressed_until_the_space_includes_it(tmp_path):
    space = read("learning_rate: {low: 1e-5, high: 1e-2, log: true}", tmp_path)
    section = {**start_of("ppo_ext")[1], "learning_rate": 0.03}
    with pytest.raises(CantExpress, match=r"learning_rate: 0\.03 is not from 1e-05 to 0\.01"):
        space.params_of(section)
    wider, changes = space.including(section)
    assert wider.params_of(section) == {"learning_rate": 0.03}
    assert changes == ["learning_rate: from 1e-05 to 0.03, log scale, so that it contains 0.03"]
