"""With its extras off and on the plain path, PPOExt is SB3's PPO, to the last bit."""

from functools import partial

import pytest
import torch as th
from conftest import ACTION_SPACES, OBSERVATION_SPACES, POLICIES, RandomEnv
from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env

from sb3_ext import PPOExt as PPOExtOnAnyPath

PPOExt = partial(PPOExtOnAnyPath, fast=False)


def train(algorithm, policy, env, **kwargs):
    vec_env = make_vec_env(env, n_envs=2, seed=3)
    settings = {"n_steps": 32, "batch_size": 16, "n_epochs": 3, "seed": 3, "device": "cpu", **kwargs}
    return algorithm(policy, vec_env, **settings).learn(256)


def assert_same(ours, stock):
    theirs = stock.policy.state_dict()
    assert all(th.equal(value, theirs[name]) for name, value in ours.policy.state_dict().items())
    ours_state, stock_state = ours.policy.optimizer.state_dict()["state"], stock.policy.optimizer.state_dict()["state"]
    assert all(th.equal(ours_state[i]["exp_avg_sq"], stock_state[i]["exp_avg_sq"]) for i in stock_state)
    assert ours._n_updates == stock._n_updates


@pytest.mark.parametrize(
    "kwargs",
    [
        {},
        {"clip_range_vf": 0.1, "ent_coef": 0.01, "normalize_advantage": False},
        {"learning_rate": lambda progress: 1e-3 * progress, "clip_range": lambda progress: 0.2 * progress},
        {"batch_size": 20},
    ],
    ids=["defaults", "value_clipping", "schedules", "stub_minibatch"],
)
@pytest.mark.parametrize("env", ["CartPole-v1", "Pendulum-v1"])
@pytest.mark.filterwarnings("ignore:You have specified a mini-batch size")
def test_parameters_equal_those_of_ppo_after_several_updates(env, kwargs):
    assert_same(train(PPOExt, "MlpPolicy", env, **kwargs), train(PPO, "MlpPolicy", env, **kwargs))


@pytest.mark.parametrize("observations", list(OBSERVATION_SPACES))
def test_parameters_equal_those_of_ppo_on_every_kind_of_observation(observations):
    def env():
        return RandomEnv(OBSERVATION_SPACES[observations], ACTION_SPACES["Discrete"])

    assert_same(train(PPOExt, POLICIES[observations], env), train(PPO, POLICIES[observations], env))


@pytest.mark.parametrize("squash_output", [False, True])
def test_parameters_equal_those_of_ppo_with_gsde(squash_output):
    """A squashed distribution has no entropy in closed form."""
    kwargs = {
        "use_sde": True,
        "sde_sample_freq": 4,
        "ent_coef": 0.01,
        "policy_kwargs": {"squash_output": squash_output},
    }
    assert_same(train(PPOExt, "MlpPolicy", "Pendulum-v1", **kwargs), train(PPO, "MlpPolicy", "Pendulum-v1", **kwargs))


def test_what_is_logged_of_an_update_is_what_ppo_logs():
    kwargs = {"n_epochs": 1, "clip_range_vf": 0.1, "learning_rate": 1e-2, "clip_range": 0.05}
    ours, stock = (train(a, "MlpPolicy", "Pendulum-v1", **kwargs).logger.name_to_value for a in (PPOExt, PPO))
    names = [name for name in stock if name.startswith("train/")]
    assert {"train/std", "train/clip_range_vf", "train/clip_fraction"} < set(names)
    assert stock["train/clip_fraction"] > 0
    assert {name: ours[name] for name in names} == pytest.approx({name: stock[name] for name in names}, rel=1e-5)
    assert ours["train/grad_norm"] == pytest.approx(
        (ours["train/grad_norm_actor"] ** 2 + ours["train/grad_norm_critic"] ** 2) ** 0.5, rel=0.1
    )


def test_kl_stopping_with_default_options_is_that_of_ppo():
    kwargs = {"target_kl": 0.004, "learning_rate": 1e-2}
    ours = train(PPOExt, "MlpPolicy", "CartPole-v1", **kwargs)
    stock = train(PPO, "MlpPolicy", "CartPole-v1", **kwargs)
    assert ours.kl_stops > 0
    theirs = stock.policy.state_dict()
    assert all(th.equal(value, theirs[name]) for name, value in ours.policy.state_dict().items())
