"""Batches of images that are divided among threads train as whole ones do."""

import threading

import numpy as np
import pytest
import torch as th
from conftest import ACTION_SPACES, OBSERVATION_SPACES, RandomEnv
from gymnasium import spaces
from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env

from sb3_ext import PPOExt
from sb3_ext.common.extractors import SmallCNN
from sb3_ext.fast.threaded_network import ThreadedNetwork
from sb3_ext.fast.threads import choose_threads

#: Two parts of an update's minibatch
SETTINGS = {"n_steps": 16, "batch_size": 64, "n_epochs": 2, "seed": 3, "device": "cpu"}
SMALL = {"kernels": (3, 2), "strides": (2, 1), "centre": True, "crop": (1, 2, 0, 1)}


def train(algorithm, actions="Discrete", **kwargs):
    env = make_vec_env(lambda: RandomEnv(OBSERVATION_SPACES["image"], ACTION_SPACES[actions]), n_envs=8, seed=3)
    policy_kwargs = {"features_extractor_class": SmallCNN, "features_extractor_kwargs": SMALL}
    return algorithm("CnnPolicy", env, policy_kwargs=policy_kwargs, **SETTINGS, **kwargs).learn(128)


def is_divided(before=()):
    return any("sb3_ext network" in thread.name for thread in threading.enumerate() if thread not in before)


@pytest.mark.parametrize("actions", ["Discrete", "Box"])
def test_a_divided_batch_trains_as_a_whole_one(actions, two_threads):
    ours = train(PPOExt, actions)
    assert is_divided()
    th.set_num_threads(1)
    stock = train(PPO, actions)
    expected = stock.policy.state_dict()
    for name, value in ours.policy.state_dict().items():
        assert th.allclose(value, expected[name], rtol=1e-4, atol=1e-5), name
    moments = stock.policy.optimizer.state_dict()["state"]
    for i, entry in ours.policy.optimizer.state_dict()["state"].items():
        assert th.allclose(entry["exp_avg"], moments[i]["exp_avg"], rtol=1e-2, atol=1e-5)


def test_two_trainings_in_threads_are_the_same_to_the_last_bit(two_threads):
    first, second = (train(PPOExt).policy.state_dict() for _ in range(2))
    assert all(th.equal(value, second[name]) for name, value in first.items())


@pytest.mark.parametrize(("n_threads", "fast"), [(1, True), (2, "alone")])
def test_one_thread_is_enough(two_threads, n_threads, fast):
    running = threading.active_count()
    th.set_num_threads(n_threads)
    train(PPOExt, fast=fast)
    assert threading.active_count() <= running


def test_the_number_of_threads_is_measured_with_a_batch_that_they_divide(two_threads):
    images = spaces.Box(0, 255, (84, 84, 4), np.uint8)
    env = make_vec_env(lambda: RandomEnv(images, ACTION_SPACES["Discrete"]), n_envs=8)
    model, before = PPOExt("CnnPolicy", env, n_steps=32, batch_size=256, device="cpu"), threading.enumerate()
    choose_threads(model)  # its threads end with the model
    assert is_divided(before)


def test_parts_cover_a_batch(two_threads):
    network = ThreadedNetwork(th.nn.Linear(2, 1))
    assert network.divide(7, least=3) == [slice(0, 3), slice(3, 7)]
    assert network.divide(5, least=3) == [slice(0, 5)]
    assert network.divide(1, least=3) == [slice(0, 1)]


def test_a_thread_uses_the_same_parameters_and_settings(two_threads):
    linear = th.nn.Linear(1, 1)
    network = ThreadedNetwork(linear)

    def call(own, part):
        return own.weight.item(), th.get_num_threads(), th.is_grad_enabled(), threading.current_thread().name

    with th.no_grad():
        network.run(call, [0, 1])
        linear.weight.fill_(7.0)
        first, second = network.run(call, [0, 1])
    assert first[:3] == second[:3] == (7.0, 1, False)
    assert first[3] != second[3]
    assert th.get_num_threads() == 2


def test_an_error_in_a_thread_is_raised(two_threads):
    network = ThreadedNetwork(th.nn.Linear(1, 1))
    with pytest.raises(ZeroDivisionError):
        network.run(lambda own, part: 1 / part, [1, 0])
    assert th.get_num_threads() == 2


def test_gradients_of_an_interrupted_update_do_not_count(two_threads):
    linear = th.nn.Linear(1, 1, bias=False)
    network = ThreadedNetwork(linear)

    def differentiate(own, part):
        if part is None:
            raise KeyboardInterrupt
        own(th.full((1, 1), part)).sum().backward()

    with pytest.raises(KeyboardInterrupt):
        network.run(differentiate, [None, 5.0])
    network.zero_grad()
    network.run(differentiate, [1.0, 2.0])
    network.gather_gradients()
    assert linear.weight.grad.item() == 3.0
