"""Numbers in an environment's info reach the logger."""

import warnings

import gymnasium as gym
import numpy as np
import pytest
from recorded_training import record
from stable_baselines3 import DQN, PPO
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import DummyVecEnv, VecMonitor

import sb3_ext.envs  # noqa: F401  registers Atari ids
from sb3_ext import REINFORCE, A2CExt, PPOExt
from sb3_ext.callbacks.metrics.callback import Metrics, MetricsOptions
from sb3_ext.vec_env.atari_config import AtariSettings
from sb3_ext.vec_env.cartpole import CartPoleVecEnv
from sb3_ext.vec_env.multicore import MulticoreVecEnv
from sb3_ext.vec_env.native_atari import NativeAtariVecEnv


class Walker(gym.Env):
    """Episodes of 4 steps that go one metre each."""

    observation_space = gym.spaces.Box(-1, 1, (1,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._step = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self._step += 1
        info = {"x": np.float32(self._step), "feet": {"left": self._step % 2 == 0}, "name": "walker"}
        if self._step == 4:
            info["falls"] = 3
        return np.zeros(1, np.float32), 0.0, False, self._step == 4, info


def rows_of(algorithm, env, info, total=64, **kwargs):
    kwargs = {"n_steps": 16, **kwargs} if algorithm is not DQN else {"learning_starts": 1000, "buffer_size": 100}
    if algorithm in (PPO, PPOExt):
        kwargs |= {"batch_size": 16, "n_epochs": 1}
    model = algorithm("MlpPolicy", env, seed=0, device="cpu", **kwargs)
    recorder = record(model)
    model.learn(total, callback=Metrics(info=info), log_interval=1)
    env.close()
    return [row for row in recorder.rows if "time/fps" in row]


def envs_of(vec_env):
    env_fns = [Walker, Walker]
    return VecMonitor(DummyVecEnv(env_fns) if vec_env is DummyVecEnv else MulticoreVecEnv(env_fns, 2, "fork"))


@pytest.mark.parametrize(
    ("algorithm", "vec_env"),
    [*((algorithm, DummyVecEnv) for algorithm in (PPO, A2CExt, REINFORCE, DQN)), (PPOExt, MulticoreVecEnv)],
)
def test_the_means_over_steps_and_over_ends_of_episodes_are_in_every_row(algorithm, vec_env):
    rows = rows_of(algorithm, envs_of(vec_env), ["x", "feet.left", "falls"])
    expected = {"info/x": 2.5, "info/x_at_end": 4, "info/feet.left": 0.5, "info/feet.left_at_end": 1, "info/falls": 3}
    found = [{name: value for name, value in row.items() if name.startswith("info/")} for row in rows]
    if algorithm is DQN:  # a row for each episode, and two of them end with the same step
        found = [numbers for numbers in found if numbers]
    assert found and all(numbers == expected for numbers in found)


def test_environments_in_numpy_have_infos_too():
    (row,) = rows_of(PPOExt, CartPoleVecEnv(4), ["episode.l"], total=400, n_steps=100)
    assert row["info/episode.l"] == pytest.approx(row["rollout/ep_len_mean"])


def test_a_key_that_never_comes_is_told_once_with_those_that_do():
    with pytest.warns(UserWarning, match=r"had 'speed'.*It has these numbers: .*falls, feet.left, x\.") as warned:
        rows = rows_of(PPO, make_vec_env(Walker, 2), ["speed", "x"], total=96)
    assert sum("speed" in str(warning.message) for warning in warned) == 1
    assert all("info/x" in row and "info/speed" not in row for row in rows)


def test_nothing_is_missing_before_an_episode_has_ended():
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message="metrics: info")
        rows = rows_of(A2CExt, make_vec_env(Walker, 2), ["falls"], total=16, n_steps=2)
    assert ["info/falls" in row for row in rows] == [False, True, False, True]


def test_what_is_not_a_number_is_told_once_and_left_out():
    with pytest.warns(UserWarning, match="'name' is 'walker' in the info, which is not a number") as warned:
        rows = rows_of(PPO, make_vec_env(Walker, 2), ["name", "x"])
    assert sum("walker" in str(warning.message) for warning in warned) == 1
    assert all("info/x" in row and "info/name" not in row for row in rows)


def test_keys_are_a_list_of_texts():
    assert MetricsOptions(info=["x", "feet.left"]).info == ("x", "feet.left")
    assert Metrics(info="x").options.info == ("x",)
    with pytest.raises(ValueError, match="Metrics: info: 1=1 must be a string"):
        Metrics(info=[1])


def test_games_in_cpp_have_infos_too():
    settings = AtariSettings(spec=gym.spec("Breakout-v5"), game="breakout", screen_size=36)
    model = PPO("MlpPolicy", NativeAtariVecEnv(settings, 2), n_steps=8, batch_size=16, n_epochs=1, device="cpu")
    recorder = record(model)
    model.learn(16, callback=Metrics(info=["lives"]))
    model.get_env().close()
    assert recorder.rows[0]["info/lives"] == 5
