"""Policies and feature extractors written by name under policy_kwargs."""

import re

import numpy as np
import pytest
import torch as th
from conftest import ACTION_SPACES, OBSERVATION_SPACES, POLICIES, RandomEnv
from gymnasium import spaces
from stable_baselines3.common.env_util import make_vec_env
from torch import nn

from sb3_ext import REINFORCE, PPOExt
from sb3_ext.common.extractors import NormalizedMlp


def make(policy_kwargs, observations="Box", actions="Discrete", algorithm=PPOExt):
    env = make_vec_env(lambda: RandomEnv(OBSERVATION_SPACES[observations], ACTION_SPACES[actions]), 2, seed=0)
    kwargs = {} if algorithm is REINFORCE else {"batch_size": 16}
    return algorithm(
        POLICIES[observations], env, n_steps=16, seed=0, device="cpu", policy_kwargs=policy_kwargs, **kwargs
    )


def modules(model, kind):
    return [module for module in model.policy.modules() if isinstance(module, kind)]


@pytest.mark.parametrize(
    ("observations", "policy_kwargs"),
    [
        ("Box", {"activation_fn": "relu", "net_arch": [8], "layer_norm": True, "dropout": 0.1}),
        ("Box", {"features_extractor_class": "NormalizedMlp", "features_extractor_kwargs": {"features_dim": 8}}),
        ("Box", {"weight_decay": 0.01, "ortho_gain": 1.0}),
        ("Box", {"optimizer_class": "RMSprop"}),
        (
            "Discrete",
            {"features_extractor_class": "DiscreteEmbedding", "features_extractor_kwargs": {"features_dim": 4}},
        ),
        ("image", {"features_extractor_class": "ImpalaCNN", "features_extractor_kwargs": {"features_dim": 16}}),
        ("image", {"features_extractor_class": "NatureCNN"}),
    ],
    ids=str,
)
@pytest.mark.parametrize("algorithm", [PPOExt, REINFORCE])
def test_it_trains_and_is_loaded_as_it_was_saved(algorithm, observations, policy_kwargs, tmp_path):
    model = make(policy_kwargs, observations, algorithm=algorithm).learn(64)
    model.save(tmp_path / "model")
    loaded = algorithm.load(tmp_path / "model", device="cpu")
    saved = model.policy.state_dict()
    assert saved.keys() == loaded.policy.state_dict().keys()
    assert all(th.equal(value, saved[name]) for name, value in loaded.policy.state_dict().items())
    obs = model.env.reset()
    assert (loaded.predict(obs, deterministic=True)[0] == model.predict(obs, deterministic=True)[0]).all()


def test_names_become_layers():
    model = make({"activation_fn": "nn.ELU", "net_arch": [8, 8], "layer_norm": True, "dropout": 0.25})
    assert len(modules(model, nn.ELU)) == len(modules(model, nn.LayerNorm)) == len(modules(model, nn.Dropout)) == 4
    assert [type(layer) for layer in model.policy.mlp_extractor.policy_net][:4] == [
        nn.Linear, nn.LayerNorm, nn.ELU, nn.Dropout,
    ]  # fmt: skip


def test_weight_decay_shrinks_weights_apart_from_the_gradient():
    model = make({"weight_decay": 0.1})
    assert isinstance(model.policy.optimizer, th.optim.AdamW)
    assert model.policy.optimizer.defaults["weight_decay"] == 0.1
    assert model.policy.optimizer.defaults["eps"] == 1e-5


@pytest.mark.parametrize(
    ("policy_kwargs", "optimizer", "options"),
    [
        ({"optimizer_class": "SGD"}, th.optim.SGD, {"weight_decay": 0.1}),
        ({"optimizer_kwargs": {"eps": 1e-3}}, th.optim.AdamW, {"weight_decay": 0.1, "eps": 1e-3}),
        ({"optimizer_class": "SGD", "optimizer_kwargs": {"momentum": 0.5}}, th.optim.SGD, {"momentum": 0.5}),
    ],
)
def test_weight_decay_goes_with_the_other_options_of_the_optimizer(policy_kwargs, optimizer, options):
    model = make({**policy_kwargs, "weight_decay": 0.1})
    assert type(model.policy.optimizer) is optimizer
    assert model.policy.optimizer.defaults.items() >= {**options, "weight_decay": 0.1}.items()


@pytest.mark.parametrize("options", [{"layer_norm": True, "dropout": 0.25}, {"ortho_gain": 0.5, "weight_decay": 0.1}])
def test_a_policy_that_is_saved_by_itself_keeps_its_options(options, tmp_path):
    policy = make(options).policy
    policy.save(tmp_path / "policy")
    loaded = type(policy).load(tmp_path / "policy", device="cpu")
    assert str(loaded) == str(policy)
    assert loaded.optimizer.defaults.get("weight_decay") == policy.optimizer.defaults.get("weight_decay")
    saved = policy.state_dict()
    assert all(th.equal(value, saved[name]) for name, value in loaded.state_dict().items())


@pytest.mark.parametrize(("options", "extra"), [({"layer_norm": True}, nn.LayerNorm), ({"dropout": 0.25}, nn.Dropout)])
def test_layers_are_added_to_actor_and_critic(options, extra):
    model = make({**options, "net_arch": [8, 9]})
    for network in (model.policy.mlp_extractor.policy_net, model.policy.mlp_extractor.value_net):
        added = [layer for layer in network if isinstance(layer, extra)]
        assert len(added) == 2
        if extra is nn.LayerNorm:
            assert [layer.normalized_shape for layer in added] == [(8,), (9,)]
        else:
            assert [layer.p for layer in added] == [0.25, 0.25]


def test_the_orthogonal_gain_is_the_norm_of_the_hidden_layers_rows():
    model = make({"ortho_gain": 0.5, "net_arch": [4]})
    weight = model.policy.mlp_extractor.policy_net[0].weight.detach()
    assert th.linalg.svdvals(weight) == pytest.approx(0.5 * th.ones(4))


@pytest.fixture
def own_module(tmp_path, monkeypatch):
    """A user's module in the current folder, which `python -m` puts into the path."""
    (tmp_path / "own_networks.py").write_text("""
from stable_baselines3.common.policies import ActorCriticPolicy
from stable_baselines3.common.torch_layers import FlattenExtractor
from torch import nn, optim
class OwnExtractor(FlattenExtractor): pass
class OwnActivation(nn.ReLU): pass
class OwnOptimizer(optim.Adam): pass
class OwnPolicy(ActorCriticPolicy): pass
a_number = 3
""")
    (tmp_path / "broken_networks.py").write_text("import no_such_package")
    (tmp_path / "failing_networks.py").write_text("1 / 0")
    monkeypatch.syspath_prepend(tmp_path)


@pytest.mark.usefixtures("own_module")
def test_classes_of_the_users_are_found_by_their_import_path(tmp_path):
    env = make_vec_env(lambda: RandomEnv(OBSERVATION_SPACES["Box"], ACTION_SPACES["Discrete"]), 2, seed=0)
    policy_kwargs = {
        "features_extractor_class": "own_networks.OwnExtractor",
        "activation_fn": "own_networks.OwnActivation",
        "optimizer_class": "own_networks.OwnOptimizer",
    }
    model = PPOExt("own_networks.OwnPolicy", env, n_steps=16, batch_size=16, device="cpu", policy_kwargs=policy_kwargs)
    model.learn(32).save(tmp_path / "model")
    policy = PPOExt.load(tmp_path / "model", device="cpu").policy
    found = [
        type(policy),
        type(policy.features_extractor),
        type(policy.optimizer),
        type(policy.mlp_extractor.policy_net[1]),
    ]
    assert [cls.__name__ for cls in found] == ["OwnPolicy", "OwnExtractor", "OwnOptimizer", "OwnActivation"]


def test_any_activation_of_torch_can_be_named():
    assert len(modules(make({"activation_fn": "nn.PReLU", "net_arch": [8]}), nn.PReLU)) == 2


@pytest.mark.usefixtures("own_module")
@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("no_such_package.Own", "there is no module 'no_such_package', neither installed nor in the folder"),
        ("own_networks.inner.Own", "there is no module 'own_networks.inner'"),
        ("broken_networks.Own", "'broken_networks' imports 'no_such_package', which is not installed"),
        ("failing_networks.Own", "importing 'failing_networks' raised ZeroDivisionError"),
        ("own_networks.OwnExtracter", "'own_networks' has no 'OwnExtracter': did you mean 'OwnExtractor'?"),
        ("math.Own", "'math' has no 'Own': it has no subclass of BaseFeaturesExtractor at all"),
        ("own_networks.OwnOptimizer", "must be a subclass of stable_baselines3.*BaseFeaturesExtractor, and is <class"),
        ("own_networks.a_number", "must be a subclass of .*, and is 3"),
    ],
)
def test_a_path_that_can_not_be_used_gets_an_error_that_says_why(path, reason):
    with pytest.raises(
        ValueError, match=rf"policy_kwargs: features_extractor_class: '{path}' can't be used: .*{reason}"
    ):
        make({"features_extractor_class": path})


@pytest.mark.usefixtures("own_module")
@pytest.mark.parametrize(
    ("policy", "reason"),
    [
        ("own_networks.OwnPolic", "did you mean 'OwnPolicy'?"),
        ("own_networks.OwnExtractor", "must be a subclass of stable_baselines3.common.policies.BasePolicy"),
        ("MlpPolic", "did you mean 'MlpPolicy'?"),
    ],
)
def test_a_policy_that_can_not_be_used_gets_an_error_that_says_why(policy, reason):
    with pytest.raises(ValueError, match=re.escape(reason)):
        PPOExt(policy, "CartPole-v1", device="cpu")


@pytest.mark.parametrize(
    ("policy_kwargs", "message"),
    [
        ({"activation_fn": "relou"}, "there is no activation_fn 'relou': did you mean 'relu'"),
        ({"features_extractor_class": "ImpalaCN"}, "did you mean 'ImpalaCNN'"),
        ({"optimizer_class": "AdamX"}, "did you mean 'Adam"),
        ({"dropout": 1.0}, "dropout=1.0 must be"),
        ({"dropout": -0.1}, "dropout=-0.1 must be"),
        ({"layer_norm": "yes"}, "layer_norm='yes' must be True or False"),
        ({"features_extractor_class": "DiscreteEmbedding"}, "is for Discrete and MultiDiscrete observations"),
    ],
)
def test_a_wrong_name_or_value_gets_an_error_that_says_why(policy_kwargs, message):
    with pytest.raises(ValueError, match=message):
        make(policy_kwargs)


def test_running_normalisation_learns_the_scale_of_the_observations_and_then_keeps_it():
    extractor = NormalizedMlp(spaces.Box(-np.inf, np.inf, (2,), np.float32))
    data = th.randn(1000, 2) * th.tensor([10.0, 0.1]) + th.tensor([5.0, -5.0])
    for batch in data.split(100):
        extractor(batch)
    normalized = extractor.eval()(data)
    assert normalized.mean(0) == pytest.approx(th.zeros(2), abs=1e-2)
    assert normalized.std(0) == pytest.approx(th.ones(2), abs=1e-2)
    mean = extractor.mean.clone()
    extractor(100 * data)
    assert th.equal(extractor.mean, mean), "evaluation changed the statistics"


@pytest.mark.parametrize("policy_kwargs", [{}, {"layer_norm": True, "activation_fn": "relu"}], ids=str)
@pytest.mark.parametrize("observations", list(OBSERVATION_SPACES))
@pytest.mark.parametrize("actions", ["Discrete", "MultiDiscrete", "MultiBinary"])
def test_the_initial_policy_is_uniform(observations, actions, policy_kwargs):
    model = make(policy_kwargs, observations, actions)
    obs, _ = model.policy.obs_to_tensor(model.env.reset())
    distribution = model.policy.get_distribution(obs).distribution
    for part in distribution if isinstance(distribution, list) else [distribution]:
        n_choices = 2 if actions == "MultiBinary" else part.probs.shape[-1]
        assert part.probs.detach().numpy() == pytest.approx(1 / n_choices, abs=0.02)


@pytest.mark.parametrize("observations", list(OBSERVATION_SPACES))
def test_the_initial_policy_of_continuous_actions_is_centred_with_unit_deviation(observations):
    model = make({}, observations, "Box")
    obs, _ = model.policy.obs_to_tensor(model.env.reset())
    distribution = model.policy.get_distribution(obs).distribution
    assert distribution.mean.detach().numpy() == pytest.approx(0, abs=0.1)
    assert distribution.stddev.detach().numpy() == pytest.approx(1)
