"""What the tests of noise, memory and timing share: an environment that counts, and checks for every wrapper."""

import warnings
from copy import deepcopy

import cloudpickle
import gymnasium as gym
import numpy as np
from conftest import ACTION_SPACES, OBSERVATION_SPACES, RandomEnv
from gymnasium import spaces
from gymnasium.utils.env_checker import check_env as check_gymnasium
from rl_zoo3.utils import get_wrapper_class
from stable_baselines3.common.env_checker import check_env as check_sb3
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv

from sb3_ext.vec_env.multicore import MulticoreVecEnv

VEC_ENVS = {
    "subproc": (SubprocVecEnv, {"start_method": "fork"}),
    "multicore": (MulticoreVecEnv, {"start_method": "fork", "n_workers": 2}),
}


class CountingEnv(gym.Env):
    """Observes the number of the step, twice, and gives it as the reward; remembers the actions it got."""

    def __init__(self, action_space=ACTION_SPACES["Discrete"], length=10**9, high=1e9):
        self.observation_space = spaces.Box(-1e9, high, (2,), np.float64)
        self.action_space = deepcopy(action_space)
        self.actions = []
        self._length = length

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._step = 0
        return np.zeros(2), {}

    def step(self, action):
        assert self.action_space.contains(action), action
        self.actions.append(deepcopy(action))
        self._step += 1
        return np.full(2, float(self._step)), float(self._step), self._step >= self._length, False, {}


def random_env(observation="Box", action="Discrete", length=7):
    """An environment whose spaces are its own: they hold the generator of its observations."""
    return RandomEnv(deepcopy(OBSERVATION_SPACES[observation]), deepcopy(ACTION_SPACES[action]), length)


def check_wrapped(env):
    """Both checkers pass (they warn of any wrapper), and a copy through cloudpickle goes on in the same way."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check_gymnasium(env, skip_render_check=True)
        check_sb3(env, warn=False)
    env.reset(seed=3)
    copy = cloudpickle.loads(cloudpickle.dumps(env))
    for _ in range(5):
        action = env.action_space.sample()
        np.testing.assert_equal(copy.step(action)[:4], env.step(action)[:4])
        assert env.observation_space.contains(env.reset()[0]) and copy.reset()


def trajectory(env, seed, n_steps=40):
    """All that an environment returns for random actions, which are the same for each seed."""
    env.action_space.seed(seed)
    results = [env.reset(seed=seed)[0]]
    for _ in range(n_steps):
        observation, reward, terminated, truncated, _ = env.step(env.action_space.sample())
        results += [observation, reward, terminated, truncated]
        if terminated or truncated:
            results.append(env.reset()[0])
    return results


def differs(one, other):
    try:
        np.testing.assert_equal(one, other)
    except AssertionError:
        return True
    return False


def check_vec_env(kind, env_id, env_wrapper, closing, n_steps=60):
    """A YAML's ``env_wrapper`` gives the same trajectories in a vectorised environment as in DummyVecEnv."""

    def run(vec_env_cls, vec_env_kwargs):
        wrap = get_wrapper_class({"env_wrapper": env_wrapper})
        vec_env = closing(
            make_vec_env(env_id, 3, seed=1, wrapper_class=wrap, vec_env_cls=vec_env_cls, vec_env_kwargs=vec_env_kwargs)
        )
        vec_env.action_space.seed(2)
        results = [vec_env.reset()]
        for _ in range(n_steps):
            actions = np.array([vec_env.action_space.sample() for _ in range(3)])
            observations, rewards, dones, infos = vec_env.step(actions)
            scores = [info["episode"]["r"] for info in infos if "episode" in info]
            # SubprocVecEnv's rewards have twice as many digits
            results += [observations, rewards.astype(np.float32), dones, scores]
        return results

    vec_env_cls, kwargs = VEC_ENVS[kind]
    np.testing.assert_equal(run(vec_env_cls, kwargs), run(DummyVecEnv, {}))
