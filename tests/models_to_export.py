"""Models and environments with all kinds of spaces, for tests of exported policies."""

from copy import deepcopy

import numpy as np
import torch as th
from conftest import ACTION_SPACES, OBSERVATION_SPACES, RandomEnv
from gymnasium import spaces
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

from sb3_ext import RecurrentPPOExt

OBSERVATIONS = {
    **OBSERVATION_SPACES,
    "Box of float64 without bounds": spaces.Box(-np.inf, np.inf, (2, 2), np.float64),
    "MultiDiscrete": spaces.MultiDiscrete([3, 4]),
    "MultiBinary": spaces.MultiBinary(5),
    "image, channels first": spaces.Box(0, 255, (3, 36, 36), np.uint8),
    "Dict with an image": spaces.Dict(
        {"image": spaces.Box(0, 255, (36, 36, 3), np.uint8), "value": spaces.Discrete(3), "7": spaces.MultiBinary(2)}
    ),
}
ACTIONS = {
    **ACTION_SPACES,
    "Box of float64": spaces.Box(
        np.array([[-0.2, 0.0], [-1.0, -9.0]]), np.array([[0.1, 0.5], [1.0, 9.0]]), dtype=float
    ),
}
SMALL = {"policy_kwargs": {"net_arch": [16]}}
OFF_POLICY = {**SMALL, "buffer_size": 10}


def make_env(observation="Box", action="Discrete", env_class=RandomEnv):
    observation = OBSERVATIONS[observation] if isinstance(observation, str) else observation
    return DummyVecEnv([lambda: env_class(observation, ACTIONS[action])])


def make_model(algorithm, env, **kwargs):
    space = env.observation_space
    is_image = len(space.shape or ()) == 3
    policy = "MultiInputPolicy" if isinstance(space, spaces.Dict) else "CnnPolicy" if is_image else "MlpPolicy"
    if algorithm is RecurrentPPOExt:
        policy = policy.replace("Policy", "LstmPolicy")
    kwargs = deepcopy({**({} if is_image else SMALL), **kwargs})  # SB3 adds to policy_kwargs
    model = algorithm(policy, env, seed=0, device="cpu", **kwargs)
    if hasattr(model.policy, "action_net"):
        with th.no_grad():
            model.policy.action_net.weight *= 200  # clear decisions, some of them out of bounds
    return model


def normalized(env, **kwargs):
    """With statistics of 50 steps."""
    env = VecNormalize(env, **kwargs)
    env.seed(0)
    env.reset()
    for _ in range(50):
        env.step([env.action_space.sample()])
    env.training = False
    return env
