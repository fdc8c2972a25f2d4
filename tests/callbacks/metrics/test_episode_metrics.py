"""Numbers about episodes reach the logger, of all kinds of algorithms."""

import gymnasium as gym
import numpy as np
import pytest
from stable_baselines3 import DQN, PPO
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.logger import KVWriter, Logger

from sb3_ext import REINFORCE, A2CExt, PPOExt
from sb3_ext.callbacks.metrics.episode_metrics import EpisodeMetrics
from sb3_ext.wrappers.base import report


class Numbered(gym.Env):
    """Episodes of 4 steps; the n-th one of an environment reports n, and every second one something else too."""

    observation_space = gym.spaces.Box(-1, 1, (1,), np.float32)
    action_space = gym.spaces.Discrete(2)
    reports = True
    _episode = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._episode += 1
        self._step = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self._step += 1
        info = {}
        if self._step == 4 and self.reports:
            report(info, {"env/number": self._episode})
            if self._episode % 2 == 0:
                report(info, {"env/even": 1.0})
        return np.zeros(1, np.float32), 0.0, False, self._step == 4, info


class Silent(Numbered):
    reports = False


class Written(KVWriter):
    """Keeps what a logger writes."""

    def __init__(self):
        self.rows = []

    def write(self, key_values, key_excluded, step=0):
        self.rows.append(dict(key_values))

    def close(self):
        pass


def rows_of(algorithm, env, total=32, **kwargs):
    written = Written()
    model = algorithm("MlpPolicy", make_vec_env(env, 2, seed=0), seed=0, device="cpu", **kwargs)
    model.set_logger(Logger(folder=None, output_formats=[written]))
    model.learn(total, callback=EpisodeMetrics(), log_interval=1)
    return written.rows


@pytest.mark.parametrize("algorithm", [PPO, PPOExt, A2CExt, REINFORCE])
def test_the_mean_over_a_rollouts_episodes_is_logged(algorithm):
    extra = {} if algorithm in (A2CExt, REINFORCE) else {"batch_size": 16, "n_epochs": 1}
    first, second = rows_of(algorithm, Numbered, n_steps=8, **extra)[:2]
    assert first["env/number"] == (1 + 2) / 2
    assert second["env/number"] == (3 + 4) / 2
    assert first["env/even"] == 1


def test_off_policy_algorithms_log_it_too():
    rows = rows_of(DQN, Numbered, learning_starts=1000, buffer_size=100)
    assert [row["env/number"] for row in rows if "env/number" in row][:1] == [1]


def test_nothing_is_logged_where_nothing_is_reported():
    rows = rows_of(PPO, Silent, n_steps=8, batch_size=16)
    assert not [key for row in rows for key in row if key.startswith("env/")]


def test_of_drawn_parameters_the_spread_is_recorded_too():
    rows = rows_of(PPO, Numbered, total=64, n_steps=16, batch_size=8)
    # Two environments with episodes of 4 steps: the numbers 1 to 4 twice in the first rollout, 1 to 8 twice in all
    spreads = [{name: row[f"env/number_{name}"] for name in ("std", "min", "max")} for row in rows[:2]]
    assert spreads[0] == {"std": pytest.approx(np.std([1, 2, 3, 4])), "min": 1, "max": 4}
    assert spreads[1] == {"std": pytest.approx(np.std(range(1, 9))), "min": 1, "max": 8}
