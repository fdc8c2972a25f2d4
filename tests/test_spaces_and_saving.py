"""Every algorithm trains, saves, loads and predicts on the kinds of actions and observations of its base class."""

import numpy as np
import pytest
import torch as th
from conftest import ACTION_SPACES, OBSERVATION_SPACES, POLICIES, RandomEnv
from stable_baselines3.common.env_util import make_vec_env

from sb3_ext import REINFORCE, A2CExt, MaskablePPOExt, PPOExt, RecurrentPPOExt

PPO_SETTINGS = {"n_steps": 16, "batch_size": 16, "n_epochs": 2, "target_kl": 0.02, "kl_rollback": True}
SETTINGS = {
    A2CExt: {"n_steps": 8},
    MaskablePPOExt: PPO_SETTINGS,
    PPOExt: PPO_SETTINGS,
    REINFORCE: {"n_steps": 16, "batch_size": 8},
    RecurrentPPOExt: {**PPO_SETTINGS, "policy_kwargs": {"lstm_hidden_size": 8}},
}
SPACES = [("Box", action) for action in ACTION_SPACES] + [
    (observation, "Discrete") for observation in OBSERVATION_SPACES
]
CASES = [
    (algorithm, *spaces_)
    for algorithm in SETTINGS
    for spaces_ in dict.fromkeys(SPACES)
    if not (algorithm is MaskablePPOExt and spaces_[1] == "Box")  # sb3-contrib's has no masks for it
]


@pytest.mark.parametrize(("algorithm", "observations", "actions"), CASES)
def test_it_trains_saves_loads_and_predicts(algorithm, observations, actions, tmp_path):
    env = make_vec_env(lambda: RandomEnv(OBSERVATION_SPACES[observations], ACTION_SPACES[actions]), 2, seed=0)
    policy = POLICIES[observations]
    if algorithm is RecurrentPPOExt:
        policy = policy.replace("Policy", "LstmPolicy")
    model = algorithm(policy, env, seed=0, device="cpu", **SETTINGS[algorithm])
    initial = [p.clone() for p in model.policy.parameters()]
    model.learn(64)
    assert any(not th.equal(a, b) for a, b in zip(initial, model.policy.parameters(), strict=True))

    model.save(tmp_path / "model")
    loaded = algorithm.load(tmp_path / "model", env=env, device="cpu")
    obs = env.reset()
    assert np.array_equal(loaded.predict(obs, deterministic=True)[0], model.predict(obs, deterministic=True)[0])
    loaded.learn(32, reset_num_timesteps=False)
    assert loaded.num_timesteps == model.num_timesteps + 32
