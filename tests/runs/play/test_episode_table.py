"""The table of an episode says what the agent saw, did and thought, and its numbers are the algorithm's."""

from copy import deepcopy

import gymnasium as gym
import numpy as np
import pytest
import torch as th
from conftest import ACTION_SPACES, OBSERVATION_SPACES, POLICIES, RandomEnv
from drifting_env import make_normalized
from gymnasium import spaces
from sb3_contrib import QRDQN, TQC, MaskablePPO, RecurrentPPO
from sb3_contrib.common.maskable.utils import get_action_masks
from stable_baselines3 import A2C, DQN, PPO, SAC, TD3
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv

from sb3_ext import REINFORCE, PPOExt
from sb3_ext.runs.play.episode_table import EpisodeTable, play_episode
from sb3_ext.wrappers.shaping.terms import RewardTerms

TINY = {"policy_kwargs": {"net_arch": [4]}, "device": "cpu", "seed": 0}
OFF_POLICY = {**TINY, "buffer_size": 50, "learning_starts": 10}
LSTM = {"policy_kwargs": {"net_arch": [4], "lstm_hidden_size": 4}, "device": "cpu", "seed": 0, "n_steps": 16}
CASES = [
    (PPO, "Discrete", {**TINY, "n_steps": 16, "batch_size": 16}),
    (PPOExt, "MultiDiscrete", {**TINY, "n_steps": 16, "batch_size": 16}),
    (A2C, "MultiBinary", TINY),
    (REINFORCE, "Box", {**TINY, "n_steps": 16}),
    (PPO, "Box", {**TINY, "n_steps": 16, "batch_size": 16, "use_sde": True}),
    (RecurrentPPO, "Discrete", {**LSTM, "batch_size": 16}),
    (MaskablePPO, "MultiDiscrete", {**TINY, "n_steps": 16, "batch_size": 16}),
    (DQN, "Discrete", OFF_POLICY),
    (QRDQN, "Discrete", OFF_POLICY),
    (SAC, "Box", OFF_POLICY),
    (TD3, "Box", OFF_POLICY),
    (TQC, "Box", OFF_POLICY),
]


class ScriptedEnv(gym.Env):
    """Three steps with the rewards 1, 2 and 3; the observation is the time."""

    def __init__(self, truncates=False):
        self.observation_space = spaces.Box(-10.0, 10.0, (1,), np.float32)
        self.action_space = spaces.Discrete(2)
        self._truncates = truncates

    def get_action_meanings(self):
        return ["LEFT", "RIGHT"]

    def reset(self, *, seed=None, options=None):
        self._time = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self._time += 1
        over = self._time == 3
        observation = np.full(1, self._time, np.float32)
        return observation, float(self._time), over and not self._truncates, over and self._truncates, {}


class Halve(gym.RewardWrapper):
    """Outside of Monitor, as reward shapers and Atari's clipping are."""

    def reward(self, reward):
        return reward / 2


class TwoLives(gym.Wrapper):
    """Tells the agent after the first step that the episode is over, as Atari's wrapper does at each lost life."""

    _continues = False

    def reset(self, **kwargs):
        if self._continues:
            self._continues = False
            return np.full(1, 1, np.float32), {}
        return self.env.reset(**kwargs)

    def step(self, action):
        observation, reward, terminated, truncated, info = self.env.step(action)
        self._continues = observation[0] == 1
        return observation, reward, terminated or self._continues, truncated, info


def make_ppo(env, **kwargs):
    settings = {**TINY, "n_steps": 8, "batch_size": 8, "gamma": 0.9, "gae_lambda": 0.8}
    return PPO("MlpPolicy", env, **{**settings, **kwargs})


def value_of(model, observation):
    with th.no_grad():
        return model.policy.predict_values(th.as_tensor([[observation]], dtype=th.float32)).item()


@pytest.mark.parametrize("truncates", [False, True])
def test_returns_and_advantages_are_those_of_the_formulas(truncates):
    env = ScriptedEnv(truncates)
    model = make_ppo(env)
    table = play_episode(model, env)
    v = [value_of(model, time) for time in range(4)]
    after = v[3] if truncates else 0.0
    a2 = 3 + 0.9 * after - v[2]
    a1 = 2 + 0.9 * v[2] - v[1] + 0.9 * 0.8 * a2
    a0 = 1 + 0.9 * v[1] - v[0] + 0.9 * 0.8 * a1
    np.testing.assert_allclose(table["advantage"], [a0, a1, a2], rtol=1e-5)
    td_errors = [1 + 0.9 * v[1] - v[0], 2 + 0.9 * v[2] - v[1], a2]
    np.testing.assert_allclose(table["td_error"], td_errors, rtol=1e-5)
    sums = [1 + 0.9 * 2 + 0.81 * 3 + 0.729 * after, 2 + 0.9 * 3 + 0.81 * after, 3 + 0.9 * after]
    np.testing.assert_allclose(table["baseline_advantage"], np.subtract(sums, v[:3]), rtol=1e-5)
    np.testing.assert_allclose(table["return"], [1 + 0.9 * 2 + 0.81 * 3, 2 + 0.9 * 3, 3])
    np.testing.assert_allclose(table["value"], v[:3], rtol=1e-6)
    assert table["reward"].tolist() == [1, 2, 3] and table.score == 6
    assert table["obs_0"].tolist() == [0, 1, 2]
    assert table["terminated"].tolist() == [False, False, not truncates]
    assert table["truncated"].tolist() == [False, False, truncates]


def test_the_terms_of_shapers_add_up_to_the_seen_reward():
    time = RewardTerms(ScriptedEnv(), {"time": 0.5}, {"time": lambda step: float(step.observation[0])})
    env = RewardTerms(time, {"time": -1.0, "one": 2.0}, {"time": lambda step: 1.0, "one": lambda step: 1.0})
    table = play_episode(make_ppo(env), env)
    assert table["term_time"].tolist() == [-0.5, 0.0, 0.5]
    assert table["term_one"].tolist() == [2, 2, 2]
    np.testing.assert_allclose(table["reward"] + table["term_time"] + table["term_one"], table["seen_reward"])


def test_without_gae_the_advantage_is_return_minus_value():
    env = ScriptedEnv()
    model = DQN("MlpPolicy", env, gamma=0.9, **OFF_POLICY)
    table = play_episode(model, env)
    np.testing.assert_allclose(table["advantage"], table["return"] - table["value"], rtol=1e-6)
    np.testing.assert_allclose(table["value"], np.maximum(table["q_0"], table["q_1"]))


def test_an_episode_that_is_left_early_is_bootstrapped():
    env = ScriptedEnv()
    model = make_ppo(env)
    table = play_episode(model, env, max_steps=2)
    assert len(table) == 2
    assert table["advantage"][1] == pytest.approx(2 + 0.9 * value_of(model, 2) - value_of(model, 1), rel=1e-5)


def test_rewards_are_the_environments_own_and_those_the_algorithm_learns_from():
    vec_env = DummyVecEnv([lambda: Halve(Monitor(ScriptedEnv()))])
    table = play_episode(make_ppo(vec_env), vec_env)
    assert table["reward"].tolist() == [1, 2, 3]
    assert table["seen_reward"].tolist() == [0.5, 1, 1.5]


def test_normalised_rewards_are_seen_and_raw_ones_are_shown_without_learning_anything():
    vec_env = make_normalized()
    model = PPO("MlpPolicy", vec_env, n_steps=16, batch_size=16, **TINY).learn(32)
    before = vec_env.obs_rms.count, vec_env.ret_rms.count, th.random.get_rng_state()
    table = play_episode(model, vec_env, seed=1)
    assert (vec_env.obs_rms.count, vec_env.ret_rms.count) == before[:2] and vec_env.training
    assert th.equal(th.random.get_rng_state(), before[2])
    scale = np.sqrt(vec_env.ret_rms.var + vec_env.epsilon)
    np.testing.assert_allclose(table["seen_reward"], np.clip(table["reward"] / scale, -10, 10), rtol=1e-5)
    # What the environment shows, not what VecNormalize makes of it
    np.testing.assert_allclose(table["obs_0"], np.sin(np.arange(10)), atol=1e-6)


def test_a_lost_life_ends_nothing_but_what_the_algorithm_sees():
    vec_env = DummyVecEnv([lambda: TwoLives(Monitor(ScriptedEnv()))])
    model = make_ppo(vec_env)
    table = play_episode(model, vec_env)
    assert table["terminated"].tolist() == [True, False, True]
    assert table["return"][0] == pytest.approx(1 + 0.9 * 2 + 0.81 * 3)
    assert table["advantage"][0] == pytest.approx(1 - table["value"][0])


@pytest.mark.parametrize(("algorithm", "actions", "settings"), CASES)
def test_the_agent_plays_as_predict_does(algorithm, actions, settings):
    vec_env = DummyVecEnv([lambda: Monitor(RandomEnv(OBSERVATION_SPACES["Box"], ACTION_SPACES[actions], 5))])
    policy = "MlpLstmPolicy" if algorithm is RecurrentPPO else "MlpPolicy"
    model = algorithm(policy, vec_env, **deepcopy(settings)).learn(32)
    table = play_episode(model, vec_env, seed=3)

    vec_env.seed(3)
    observation, state, starts = vec_env.reset(), None, np.ones(1, bool)
    for step in range(len(table)):
        np.testing.assert_allclose([table[f"obs_{i}"][step] for i in range(4)], observation[0])
        masks = {"action_masks": get_action_masks(vec_env)} if algorithm is MaskablePPO else {}
        action, state = model.predict(observation, state, starts, deterministic=True, **masks)
        names = ["action"] if actions == "Discrete" else [f"action_{i}" for i in range(action.shape[1])]
        np.testing.assert_allclose([table[name][step] for name in names], np.ravel(action), atol=1e-5)
        observation, _, starts, _ = vec_env.step(action)
    assert starts[0] and np.isfinite(table["value"]).all() and np.isfinite(table["advantage"]).all()


def test_probabilities_are_those_of_the_policy():
    env = RandomEnv(OBSERVATION_SPACES["Box"], ACTION_SPACES["Discrete"])
    table = play_episode(make_ppo(env), env, deterministic=False, seed=0)
    probabilities = np.stack([table[f"prob_{i}"] for i in range(3)])
    np.testing.assert_allclose(probabilities.sum(0), 1, rtol=1e-5)
    np.testing.assert_allclose(table["log_prob"], np.log(probabilities[table["action"], range(len(table))]), rtol=1e-4)
    np.testing.assert_allclose(table["entropy"], -(probabilities * np.log(probabilities)).sum(0), rtol=1e-4)


def test_a_seed_gives_the_same_episode_again():
    env = RandomEnv(OBSERVATION_SPACES["Box"], ACTION_SPACES["Box"])
    model = make_ppo(env)
    first, second = (play_episode(model, env, deterministic=False, seed=5)["action_0"] for _ in range(2))
    np.testing.assert_array_equal(first, second)


def test_impossible_actions_have_no_probability():
    class Masked(RandomEnv):
        def action_masks(self):
            return np.array([True, False, True])

    env = Masked(OBSERVATION_SPACES["Box"], ACTION_SPACES["Discrete"])
    model = MaskablePPO("MlpPolicy", env, n_steps=8, batch_size=8, **TINY)
    table = play_episode(model, env, deterministic=False, seed=0)
    assert table["prob_1"].max() < 1e-6
    assert 1 not in table["action"]


@pytest.mark.parametrize(
    ("observations", "columns"),
    [
        ("Discrete", ["obs"]),
        ("Dict", ["obs_number", "obs_vector_0", "obs_vector_1", "obs_vector_2"]),
        ("image", ["obs_mean", "obs_std", "obs_min", "obs_max"]),
    ],
)
def test_observations_are_summed_up(observations, columns):
    env = RandomEnv(OBSERVATION_SPACES[observations], ACTION_SPACES["Discrete"], 2)
    model = PPO(POLICIES[observations], env, n_steps=8, batch_size=8, device="cpu", seed=0)
    table = play_episode(model, env, seed=0)
    assert [name for name in table.columns if name.startswith("obs")] == columns
    assert np.isfinite(table["value"]).all()


def test_the_file_gives_the_table_back(tmp_path):
    env = ScriptedEnv()
    table = play_episode(make_ppo(env), env)
    table.to_csv(tmp_path / "episode.csv")
    again = EpisodeTable.from_csv(tmp_path / "episode.csv")
    assert list(again.columns) == list(table.columns)
    assert set(table["action_label"]) <= {"LEFT", "RIGHT"}
    for name, column in table.columns.items():
        assert again[name].dtype.kind == column.dtype.kind, name
        np.testing.assert_array_equal(again[name], column)
    assert [path.name for path in tmp_path.iterdir()] == ["episode.csv"]
