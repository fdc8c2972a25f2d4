"""A saved agent plays as it did when it was saved."""

import numpy as np
import pytest
import torch as th
from drifting_env import make_normalized, make_vec_env
from stable_baselines3 import DQN, PPO
from stable_baselines3.common.vec_env import VecNormalize, unwrap_vec_normalize

from sb3_ext.runs.agents.load import load_agent
from sb3_ext.runs.agents.statistics import save_statistics

TINY = {"n_steps": 16, "batch_size": 16, "n_epochs": 1, "policy_kwargs": {"net_arch": [4]}, "seed": 0, "device": "cpu"}


@pytest.fixture
def model(tmp_path):
    model = PPO("MlpPolicy", make_normalized(0.1), **TINY).learn(16)
    save_statistics(model, tmp_path / "agent.zip")
    model.save(tmp_path / "agent.zip")
    return model


@pytest.mark.parametrize("make_env", [make_vec_env, make_normalized])
def test_observations_are_normalised_as_they_were(tmp_path, model, make_env):
    agent, env = load_agent(tmp_path / "agent.zip", make_env(), PPO)
    statistics = unwrap_vec_normalize(env)
    np.testing.assert_array_equal(statistics.obs_rms.mean, model.get_vec_normalize_env().obs_rms.mean)
    assert not statistics.training and not statistics.norm_reward
    assert agent.num_timesteps == 16


def test_rewards_can_be_normalised_too(tmp_path, model):
    _, env = load_agent(tmp_path / "agent.zip", make_vec_env(), PPO, norm_reward=True)
    assert unwrap_vec_normalize(env).norm_reward


def test_without_statistics_the_environments_stay_as_they_are(tmp_path):
    PPO("MlpPolicy", make_vec_env(), **TINY).save(tmp_path / "agent.zip")
    env = make_vec_env()
    assert load_agent(tmp_path / "agent.zip", env, PPO)[1] is env


def test_random_numbers_go_on_as_if_nothing_was_loaded(tmp_path, model):
    th.manual_seed(1)
    expected = th.rand(1), np.random.RandomState(1).rand()
    th.manual_seed(1)
    np.random.seed(1)
    load_agent(tmp_path / "agent.zip", make_vec_env(), PPO)
    assert (th.rand(1), np.random.rand()) == expected


def test_a_replay_buffer_takes_no_memory(tmp_path):
    DQN("MlpPolicy", "CartPole-v1", buffer_size=1000, device="cpu").save(tmp_path / "agent.zip")
    env = DQN("MlpPolicy", "CartPole-v1", buffer_size=1, device="cpu").get_env()
    agent, _ = load_agent(tmp_path / "agent.zip", env, DQN)
    assert agent.replay_buffer.buffer_size == 1


def test_statistics_that_are_being_replaced_are_waited_for(tmp_path, model, monkeypatch):
    path = tmp_path / "agent.zip"
    model.num_timesteps = 32
    model.save(path)
    with pytest.raises(ValueError, match="belong to another model"):
        load_agent(path, make_vec_env(), PPO)
    # The training finishes its second file while the loader waits
    monkeypatch.setattr("time.sleep", lambda _: save_statistics(model, path))
    agent, env = load_agent(path, make_vec_env(), PPO, attempts=2)
    assert agent.num_timesteps == 32 and isinstance(env, VecNormalize)
