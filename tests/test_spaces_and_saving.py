"""Every algorithm trains, saves, loads and predicts on every kind of action and observation."""

import pytest
import torch as th
from conftest import ACTION_SPACES, OBSERVATION_SPACES, POLICIES, RandomEnv
from stable_baselines3.common.env_util import make_vec_env

from sb3_ext import REINFORCE, PPOExt

SETTINGS = {
    PPOExt: {"n_steps": 16, "batch_size": 16, "n_epochs": 2, "target_kl": 0.02, "kl_rollback": True},
    REINFORCE: {"n_steps": 16, "batch_size": 8},
}
SPACES = [("Box", action) for action in ACTION_SPACES] + [
    (observation, "Discrete") for observation in OBSERVATION_SPACES
]


@pytest.mark.parametrize(("observations", "actions"), dict.fromkeys(SPACES))
@pytest.mark.parametrize("algorithm", SETTINGS)
def test_it_trains_saves_loads_and_predicts(algorithm, observations, actions, tmp_path):
    env = make_vec_env(lambda: RandomEnv(OBSERVATION_SPACES[observations], ACTION_SPACES[actions]), 2, seed=0)
    model = algorithm(POLICIES[observations], env, seed=0, device="cpu", **SETTINGS[algorithm])
    initial = [p.clone() for p in model.policy.parameters()]
    model.learn(64)
    assert any(not th.equal(a, b) for a, b in zip(initial, model.policy.parameters(), strict=True))

    model.save(tmp_path / "model")
    loaded = algorithm.load(tmp_path / "model", env=env, device="cpu")
    obs = env.reset()
    assert (loaded.predict(obs, deterministic=True)[0] == model.predict(obs, deterministic=True)[0]).all()
    loaded.learn(32, reset_num_timesteps=False)
    assert loaded.num_timesteps == model.num_timesteps + 32
