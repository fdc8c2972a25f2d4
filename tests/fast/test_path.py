"""Where the fast path applies, and what is said where it does not."""

import json
import subprocess
import sys
import zipfile

import numpy as np
import pytest
import torch as th
from conftest import ACTION_SPACES, OBSERVATION_SPACES, POLICIES, RandomEnv
from gymnasium import spaces
from stable_baselines3.common.env_util import make_vec_env
from torch import nn
from torch.nn.utils.parametrizations import weight_norm

from sb3_ext import REINFORCE, PPOExt
from sb3_ext.fast.image_policy import FastImagePolicy
from sb3_ext.fast.mlp_policy import FastMlpPolicy
from sb3_ext.fast.path import find_fast_policy
from sb3_ext.fast.policy import has_hooks

FLOAT_IMAGE = spaces.Box(0.0, 1.0, (3, 36, 36), np.float32)


def make(observations="Box", actions="Discrete", algorithm=PPOExt, **kwargs):
    observation_space = OBSERVATION_SPACES[observations] if isinstance(observations, str) else observations
    action_space = ACTION_SPACES[actions] if isinstance(actions, str) else actions
    env = make_vec_env(lambda: RandomEnv(observation_space, action_space), 1)
    policy = POLICIES[observations] if isinstance(observations, str) else kwargs.pop("policy")
    return algorithm(policy, env, n_steps=8, device="cpu", **kwargs)


@pytest.mark.filterwarnings("ignore:You have specified a mini-batch size")
@pytest.mark.parametrize(
    ("kwargs", "expected"),
    [
        ({}, FastMlpPolicy),
        ({"observations": "Discrete"}, FastMlpPolicy),
        ({"actions": "MultiDiscrete"}, FastMlpPolicy),
        ({"actions": "Box"}, FastMlpPolicy),
        ({"normalize_values": True}, FastMlpPolicy),
        ({"observations": "image"}, FastImagePolicy),
        ({"observations": "image", "policy_kwargs": {"features_extractor_class": "ImpalaCNN"}}, FastImagePolicy),
        ({"actions": "Box", "use_sde": True}, FastMlpPolicy),
        ({"actions": "Box", "use_sde": True, "policy_kwargs": {"use_expln": True}}, "of gSDE's options"),
        ({"actions": "Box", "use_sde": True, "policy_kwargs": {"squash_output": True}}, "of gSDE's options"),
        ({"actions": "Box", "use_sde": True, "policy_kwargs": {"full_std": False}}, "of gSDE with full_std=False"),
        ({"actions": "Box", "use_sde": True, "policy_kwargs": {"net_arch": []}}, "gSDE needs a hidden layer"),
        ({"actions": "Box", "use_sde": True, "observations": "image"}, "of gSDE with images"),
        ({"actions": "MultiBinary"}, FastMlpPolicy),
        ({"actions": spaces.Box(-1, 1, (2, 2))}, "of its actions (Box)"),
        ({"observations": "Dict"}, "of its observations (Dict)"),
        (
            {"observations": spaces.MultiDiscrete([2, 3]), "policy": "MlpPolicy"},
            "of its observations (MultiDiscrete)",
        ),
        (
            {"observations": "image", "policy_kwargs": {"share_features_extractor": False}},
            "actor and critic have a features extractor each",
        ),
        ({"observations": "image", "normalize_values": True}, "of normalised values from images"),
        (
            {"observations": "image", "policy_kwargs": {"features_extractor_class": "FlattenExtractor"}},
            "of the features extractor FlattenExtractor",
        ),
        (
            {"observations": FLOAT_IMAGE, "policy": "CnnPolicy", "policy_kwargs": {"normalize_images": False}},
            "of the features extractor NatureCNN",
        ),
        (
            {"observations": "image", "policy_kwargs": {"normalize_images": False}},
            "of its observations (images that are normalised already)",
        ),
        ({"policy_kwargs": {"features_extractor_class": "NormalizedMlp"}}, "of the features extractor NormalizedMlp"),
        ({"policy_kwargs": {"activation_fn": "elu"}}, "of the layers Linear, ELU"),
        ({"policy_kwargs": {"layer_norm": True}}, "of the layers Linear, LayerNorm, Tanh"),
        ({"policy_kwargs": {"dropout": 0.5}}, "of the layers Linear, Tanh, Dropout"),
    ],
    ids=str,
)
def test_it_is_found_or_the_reason_given(kwargs, expected):
    assert find_fast_policy(make(**kwargs)) == expected


def optimize_all(policy):
    policy.optimizer = th.optim.Adam(policy.parameters())


def replace_head(policy):
    policy.action_net = nn.Sequential(nn.Linear(64, 3))
    optimize_all(policy)


def drop_a_bias(policy):
    policy.mlp_extractor.value_net[2] = nn.Linear(64, 64, bias=False)
    optimize_all(policy)


def mix_activations(policy):
    policy.mlp_extractor.policy_net[3] = nn.ReLU()


def end_with_a_layer(policy):
    policy.mlp_extractor.policy_net.append(nn.Linear(64, 64))
    optimize_all(policy)


def replace_network(policy):
    policy.mlp_extractor = type("Mine", (type(policy.mlp_extractor),), {})(4, [64, 64], nn.Tanh)
    optimize_all(policy)


def own_forward(policy):
    policy.forward = policy.forward


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda policy: policy.value_net.weight.requires_grad_(False), "some of its parameters are frozen"),
        (lambda policy: policy.optimizer.param_groups[0]["params"].pop(), "its optimizer does not have all"),
        (lambda policy: policy.value_net.weight.register_hook(lambda gradient: gradient), "it has hooks"),
        (lambda policy: policy.mlp_extractor.register_forward_hook(lambda *_: None), "it has hooks"),
        (lambda policy: (weight_norm(policy.value_net), optimize_all(policy)), "its weights are computed"),
        (replace_head, "of the heads Sequential and Linear"),
        (own_forward, "MlpPolicy has its own forward"),
        (drop_a_bias, "of the layers Linear, Tanh"),
        (mix_activations, "of the layers Linear, Tanh, ReLU"),
        (end_with_a_layer, "of the layers Linear, Tanh"),
        (replace_network, "of the network Mine"),
    ],
)
@pytest.mark.filterwarnings("ignore:You have specified a mini-batch size")
def test_a_policy_that_was_changed_is_left_alone(change, reason):
    model = make()
    assert find_fast_policy(model) is FastMlpPolicy
    change(model.policy)
    found = find_fast_policy(model)
    assert isinstance(found, str) and found.startswith(reason)


@pytest.mark.parametrize(
    "register",
    [
        "register_forward_hook",
        "register_forward_pre_hook",
        "register_full_backward_hook",
        "register_full_backward_pre_hook",
    ],
)
def test_hooks_of_every_kind_are_seen(register):
    module = nn.Linear(2, 2)
    assert not has_hooks(module)
    handle = getattr(module, register)(lambda *_: None)
    assert has_hooks(module)
    handle.remove()
    assert not has_hooks(module)


@pytest.mark.parametrize("algorithm", [PPOExt, REINFORCE])
@pytest.mark.filterwarnings("ignore:You have specified a mini-batch size")
def test_what_is_saved_knows_nothing_of_the_fast_path_but_whether_to_take_it(algorithm, tmp_path):
    model = make(algorithm=algorithm).learn(16)
    assert model.fast_policy is not None
    model.save(tmp_path / "model")
    with zipfile.ZipFile(tmp_path / "model.zip") as archive:
        saved = json.loads(archive.read("data"))
    assert saved["fast"] is True
    assert not {"_fast_path", "_compared_at"} & set(saved)


@pytest.mark.filterwarnings("ignore:You have specified a mini-batch size")
@pytest.mark.parametrize("fast", [True, False])
@pytest.mark.parametrize("n_envs", [1, 2])
def test_the_diversity_of_several_environments_is_logged(n_envs, fast):
    env = make_vec_env(lambda: RandomEnv(OBSERVATION_SPACES["Box"], ACTION_SPACES["Discrete"]), n_envs, seed=0)
    model = PPOExt("MlpPolicy", env, n_steps=16, n_epochs=1, device="cpu", fast=fast).learn(32, log_interval=None)
    assert ("rollout/env_diversity" in model.logger.name_to_value) == (n_envs > 1)


def test_without_a_compiled_kernel_the_plain_path_is_taken_and_said_once():
    code = """
import sys
sys.modules["sb3_ext.fast.kernel._kernel"] = None
from sb3_ext import A2CExt, PPOExt, REINFORCE
for algorithm in (PPOExt, A2CExt, REINFORCE):
    model = algorithm("MlpPolicy", "CartPole-v1", n_steps=64, verbose=1, device="cpu").learn(256)
    assert model.fast_policy is None
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stderr
    said = [line for line in run.stdout.splitlines() if "plain path" in line]
    assert [line.split()[0] for line in said] == ["PPOExt", "A2CExt", "REINFORCE"]
    assert "its kernel was not built when sb3-ext was installed, which needs a C compiler" in said[0]
