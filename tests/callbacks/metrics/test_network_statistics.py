"""Dead ReLUs, how sure a policy is, and how it starts; and that asking leaves no trace."""

import math

import numpy as np
import pytest
import torch as th
from conftest import ACTION_SPACES, OBSERVATION_SPACES, RandomEnv
from gymnasium import spaces
from sb3_contrib import MaskablePPO, RecurrentPPO
from stable_baselines3 import DQN, PPO, SAC
from stable_baselines3.common.env_util import make_vec_env
from torch import nn

from sb3_ext.callbacks.metrics.network_statistics import (
    PolicySample,
    initial_policy,
    largest_entropy,
    network_statistics,
)
from sb3_ext.fast.policy import has_hooks

RELU = {"activation_fn": nn.ReLU, "net_arch": [8]}


def make_model(algorithm, observation="Box", action="Discrete", policy="MlpPolicy", **kwargs):
    env = make_vec_env(lambda: RandomEnv(OBSERVATION_SPACES[observation], ACTION_SPACES[action]), 2)
    return algorithm(policy, env, seed=0, device="cpu", **kwargs)


def sample_for(model, n=50):
    space = model.observation_space
    space.seed(0)
    return PolicySample(np.stack([space.sample() for _ in range(n)]))


@pytest.mark.parametrize(("algorithm", "action"), [(PPO, "Discrete"), (SAC, "Box"), (DQN, "Discrete")])
def test_units_that_are_never_above_zero_are_dead(algorithm, action):
    model = make_model(algorithm, action=action, policy_kwargs=dict(RELU))
    networks = {PPO: ["mlp_extractor.policy_net"], SAC: ["actor.latent_pi"], DQN: ["q_net.q_net"]}[algorithm]
    n_units = {PPO: 16, SAC: 24, DQN: 8}[algorithm]  # SAC has two critics, DQN's target network does not count
    sample = sample_for(model)
    with th.no_grad():
        for module in model.policy.modules():
            if isinstance(module, nn.Linear) and module.out_features == 8:
                module.bias.fill_(10.0)  # all are alive
    assert network_statistics(model, sample)["policy/dead_relus"] == 0.0
    with th.no_grad():
        model.policy.get_submodule(networks[0])[0].bias[:6] = -100.0
    assert network_statistics(model, sample)["policy/dead_relus"] == pytest.approx(6 / n_units)


def test_a_unit_that_is_alive_for_a_single_observation_is_not_dead():
    model = make_model(PPO, policy_kwargs=dict(RELU))
    layer = model.policy.mlp_extractor.policy_net[0]
    observations = np.zeros((50, 4), np.float32)
    observations[17] = 1.0
    with th.no_grad():
        for network in (model.policy.mlp_extractor.policy_net, model.policy.mlp_extractor.value_net):
            network[0].weight.fill_(1.0)
            network[0].bias.fill_(-1.0)
    assert network_statistics(model, PolicySample(observations))["policy/dead_relus"] == 0.0
    with th.no_grad():
        layer.bias.fill_(-5.0)
    assert network_statistics(model, PolicySample(observations))["policy/dead_relus"] == 0.5


def test_a_channel_of_a_convolution_is_one_unit():
    model = make_model(PPO, observation="image", policy="CnnPolicy", n_steps=4, batch_size=4)
    sample = sample_for(model, 4)
    features = model.policy.features_extractor
    with th.no_grad():
        for layer in (features.cnn[0], features.cnn[2], features.cnn[4], features.linear[0]):
            layer.weight.zero_()
            layer.bias.fill_(1.0)
        features.cnn[0].bias[:5] = -1.0
        features.linear[0].bias[:7] = -1.0
    dead = network_statistics(model, sample)["policy/dead_relus"]
    assert dead == pytest.approx(12 / (32 + 64 + 64 + 512))


def test_networks_without_relus_have_no_dead_ones():
    model = make_model(PPO)
    assert "policy/dead_relus" not in network_statistics(model, sample_for(model))
    assert network_statistics(make_model(PPO, action="Box"), sample_for(model)) == {}


@pytest.mark.parametrize("action", ["Discrete", "MultiDiscrete", "MultiBinary"])
@pytest.mark.parametrize("algorithm", [PPO, MaskablePPO, RecurrentPPO])
def test_the_largest_probability_is_that_of_the_actions(algorithm, action):
    model = make_model(algorithm, action=action, policy=f"Mlp{'Lstm' * (algorithm is RecurrentPPO)}Policy")
    sample = sample_for(model, 6)
    if algorithm is RecurrentPPO:
        memory = (th.zeros(1, 6, 256), th.zeros(1, 6, 256))
        sample = PolicySample(sample.observations, memories=(memory, memory), episode_starts=th.zeros(6))
    n_actions = {"Discrete": 3, "MultiDiscrete": 5, "MultiBinary": 6 if algorithm is MaskablePPO else 3}[action]
    with th.no_grad():
        model.policy.action_net.weight.zero_()
        model.policy.action_net.bias.zero_()
    uniform = {"Discrete": 1 / 3, "MultiDiscrete": (1 / 2 + 1 / 3) / 2, "MultiBinary": 1 / 2}[action]
    assert len(model.policy.action_net.bias) == n_actions
    assert network_statistics(model, sample)["policy/prob_max"] == pytest.approx(uniform)
    with th.no_grad():
        model.policy.action_net.bias[0] = 50.0
    sure = {"Discrete": 1.0, "MultiDiscrete": (1 + 1 / 3) / 2, "MultiBinary": (1 + 1 / 2 + 1 / 2) / 3}[action]
    assert network_statistics(model, sample)["policy/prob_max"] == pytest.approx(sure)


@pytest.mark.parametrize("action", ["Discrete", "MultiDiscrete", "MultiBinary"])
def test_a_uniform_policy_has_all_of_the_largest_entropy(action):
    model = make_model(PPO, action=action)
    with th.no_grad():
        model.policy.action_net.weight.zero_()
        model.policy.action_net.bias.zero_()
    assert initial_policy(model, sample_for(model)) == {"policy/initial_entropy_share": pytest.approx(1.0)}
    with th.no_grad():
        model.policy.action_net.bias[0] = 50.0
    assert initial_policy(model, sample_for(model))["policy/initial_entropy_share"] < 0.7


def test_actions_that_are_not_possible_are_not_missed():
    masks = np.array([[1, 1, 0, 1, 0, 0], [1, 1, 1, 1, 1, 0]], dtype=np.float32)
    space = spaces.MultiDiscrete([3, 3])
    assert largest_entropy(space, masks) == pytest.approx((math.log(2) + math.log(3) + math.log(2)) / 2)
    assert largest_entropy(space) == pytest.approx(2 * math.log(3))


def test_the_start_of_a_gaussian_policy_is_told_in_units_of_the_action_space():
    space = spaces.Box(np.array([0.0, -2.0], np.float32), np.array([4.0, 2.0], np.float32))
    env = make_vec_env(lambda: RandomEnv(OBSERVATION_SPACES["Box"], space))
    model = PPO("MlpPolicy", env, device="cpu", policy_kwargs={"log_std_init": math.log(0.5)})
    with th.no_grad():
        model.policy.action_net.weight.zero_()
        model.policy.action_net.bias.copy_(th.tensor([0.0, 1.0]))
    assert initial_policy(model, sample_for(model)) == {
        "policy/initial_action_mean": pytest.approx(-1.0),  # at the lower bound of the first one
        "policy/initial_action_std": pytest.approx(0.25),
    }


@pytest.mark.parametrize(("algorithm", "action"), [(PPO, "Discrete"), (PPO, "Box"), (SAC, "Box"), (DQN, "Discrete")])
@pytest.mark.parametrize("is_training", [True, False])
def test_asking_leaves_no_trace(algorithm, action, is_training):
    model = make_model(algorithm, action=action, policy_kwargs=dict(RELU))
    model.policy.set_training_mode(is_training)
    rng, numpy_rng = th.get_rng_state(), np.random.get_state()[1].copy()
    network_statistics(model, sample_for(model))
    assert th.equal(rng, th.get_rng_state())
    assert np.array_equal(numpy_rng, np.random.get_state()[1])
    assert not any(map(has_hooks, model.policy.modules()))
    assert model.policy.training == is_training
    assert th.is_grad_enabled()
    assert all(parameter.grad is None for parameter in model.policy.parameters())


@pytest.mark.parametrize(("algorithm", "action"), [(PPO, "Discrete"), (SAC, "Box")])
def test_a_policy_of_nan_is_for_others_to_tell(algorithm, action):
    model = make_model(algorithm, action=action, policy_kwargs=dict(RELU))
    with th.no_grad():
        for parameter in model.policy.parameters():
            parameter.fill_(math.nan)
    assert "policy/prob_max" not in network_statistics(model, sample_for(model))
