"""Defaults are part of the API: what a user gets who sets nothing changes on purpose only."""

import inspect

import pytest
from stable_baselines3 import A2C, PPO

from sb3_ext import REINFORCE, A2CExt, PPOExt
from sb3_ext.common.extractors import DiscreteEmbedding, ImpalaCNN, NormalizedMlp, SmallCNN
from sb3_ext.common.policies import PolicyOptions
from sb3_ext.common.popart import PopArtHead


def defaults(callable_):
    parameters = inspect.signature(callable_).parameters.values()
    return {p.name: p.default for p in parameters if p.default is not inspect.Parameter.empty}


PPO_EXTRAS = {
    "fast": True,
    "kl_stop_factor": 1.5,
    "kl_stop_scope": "minibatch",
    "kl_rollback": False,
    "kl_adaptive_lr": None,
    "kl_adaptive_lr_bounds": (1e-5, 1e-2),
    "reset_optimizer": "never",
    "value_loss": "mse",
    "normalize_values": False,
}


def test_ppos_parameters_have_its_defaults_and_the_extras_are_off():
    assert defaults(PPOExt) == {**defaults(PPO), **PPO_EXTRAS}


def test_a2cs_parameters_have_its_defaults():
    assert defaults(A2CExt) == {**defaults(A2C), "fast": True}


def test_the_defaults_of_reinforce():
    own = {
        "learning_rate": 1e-3,
        "n_steps": 1024,
        "batch_size": None,
        "gamma": 0.99,
        "baseline": "value",
        "normalize_returns": "rollout",
        "ent_coef": 0.0,
        "vf_coef": 0.5,
        "max_grad_norm": 0.5,
        "max_episode_steps": None,
        "use_sde": False,
        "sde_sample_freq": -1,
        "fast": True,
        "_init_setup_model": True,
    }
    assert defaults(REINFORCE).items() >= own.items()


@pytest.mark.parametrize(
    ("class_", "expected"),
    [
        (PolicyOptions, {"layer_norm": False, "dropout": 0.0, "ortho_gain": None, "weight_decay": 0.0}),
        (ImpalaCNN, {"features_dim": 256, "channels": (16, 32, 32)}),
        (
            SmallCNN,
            {
                "features_dim": 256,
                "channels": (16, 32),
                "kernels": (8, 4),
                "strides": (4, 2),
                "pool": 1,
                "layer_norm": False,
                "centre": False,
                "crop": (0, 0, 0, 0),
            },
        ),
        (NormalizedMlp, {"features_dim": 0, "clip": 10.0}),
        (DiscreteEmbedding, {"features_dim": 64}),
        (PopArtHead, {"beta": 0.1}),
    ],
)
def test_the_defaults_of_policies_and_their_parts(class_, expected):
    assert defaults(class_) == expected
