"""Every environment that our hyperparameter files or this package name can be made, played, seeded and learned from."""

from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
import yaml
from conftest import PROJECT
from gymnasium import spaces
from stable_baselines3.common.atari_wrappers import AtariWrapper
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.preprocessing import is_image_space

from sb3_ext import PPOExt
from sb3_ext.envs import OUR_IDS

GENERAL = ("default", "atari")
N_STEPS = 4


def env_kwargs_by_id():
    """What the files give to each environment; the first that gives something counts."""
    found = {}
    for path in sorted(Path(PROJECT, "hyperparams").glob("*.yml")):
        for env_id, section in yaml.safe_load(path.read_text()).items():
            if env_id not in GENERAL:
                found[env_id] = found.get(env_id) or (section or {}).get("env_kwargs") or {}
    return found | {env_id: {} for env_id in OUR_IDS if env_id not in found}


ENVIRONMENTS = env_kwargs_by_id()


def make(env_id):
    try:
        return gym.make(env_id, **ENVIRONMENTS.get(env_id, {}))
    except (gym.error.DependencyNotInstalled, ModuleNotFoundError) as error:
        pytest.skip(f"not installed: {error}")


def play(env, seed):
    """Observations and rewards of a few random steps."""
    env.action_space.seed(seed)
    observations, rewards = [env.reset(seed=seed)[0]], []
    for _ in range(N_STEPS):
        observation, reward, terminated, truncated, _ = env.step(env.action_space.sample())
        observations.append(observation)
        rewards.append(reward)
        if terminated or truncated:
            break
    assert all(env.observation_space.contains(observation) for observation in observations)
    assert np.isfinite(rewards).all()
    return observations, rewards


def is_atari(env_id):
    return "AtariEnv" in str(gym.spec(env_id).entry_point)


@pytest.mark.parametrize("env_id", ENVIRONMENTS)
def test_it_can_be_made_played_and_repeated_from_the_seed(env_id):
    env = make(env_id)
    supported = (spaces.Box, spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary)
    assert isinstance(env.observation_space, (*supported, spaces.Dict))
    assert isinstance(env.action_space, supported)
    # A seed makes the emulator load the game again, in 0.1 s: one of a hundred games will do
    if is_atari(env_id) and env_id != "Pong-v5":
        play(env, seed=None)
    else:
        np.testing.assert_equal(play(env, seed=3), play(env, seed=3))
    env.close()


#: One environment of each kind of space is learned from
KINDS = {
    "vector, Discrete": "CartPole-v1",
    "vector, Box": "Pendulum-v1",
    "Discrete, Discrete": "FrozenLake-v1",
    "image, Discrete": "Pong-v5",
    "constant, Discrete": "Bandit-v0",
    "MinAtar, Discrete": "MinAtar/Breakout-v1",
}


@pytest.mark.parametrize("env_id", KINDS.values(), ids=list(KINDS))
def test_an_algorithm_learns_from_a_rollout_of_it(env_id):
    make(env_id).close()
    vec_env = make_vec_env(env_id, 2, seed=0, wrapper_class=AtariWrapper if is_atari(env_id) else None)
    is_image = is_image_space(vec_env.observation_space)
    policy_kwargs = {"features_extractor_class": "ImpalaCNN"} if is_image and not is_atari(env_id) else {}
    policy = "CnnPolicy" if is_image else "MlpPolicy"
    model = PPOExt(policy, vec_env, n_steps=8, batch_size=8, n_epochs=1, policy_kwargs=policy_kwargs, device="cpu")
    before = [parameter.detach().clone() for parameter in model.policy.parameters()]
    model.learn(16)
    vec_env.close()
    after = list(model.policy.parameters())
    assert all(parameter.isfinite().all() for parameter in after)
    assert any(not old.equal(new) for old, new in zip(before, after, strict=True))
