"""Playing an agent's episodes: which of them count, and what they give."""

from types import SimpleNamespace

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from sb3_contrib import MaskablePPO, RecurrentPPO
from sb3_contrib.common.maskable.evaluation import evaluate_policy as evaluate_masked_policy
from stable_baselines3 import PPO
from stable_baselines3.common.atari_wrappers import EpisodicLifeEnv
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv

from sb3_ext.runs.play.scoring import Scores, play


class Always:
    """An agent with one action."""

    def __init__(self, action=0):
        self._action = action
        self.heard = []

    def predict(self, observations, state=None, episode_start=None, deterministic=False):
        self.heard.append((state, episode_start.tolist()))
        return np.full(len(observations), self._action), len(self.heard)


class Lengths(gym.Env):
    """Episodes of given lengths, or short or long ones by chance; the score of a long one is 1, that of others 0."""

    observation_space = spaces.Box(0.0, 1.0, (1,), np.float32)
    action_space = spaces.Discrete(2)

    def __init__(self, lengths=None, long=50):
        self._lengths = lengths
        self._long = long

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._left = int(self.np_random.choice(self._lengths or [1, self._long]))
        self._score = float(self._left >= self._long)
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self._left -= 1
        over = self._left == 0
        return np.zeros(1, np.float32), self._score if over else 0.0, over, False, {"is_success": self._score > 0}


def make_lengths(n_envs, **kwargs):
    return make_vec_env(Lengths, n_envs, seed=1000, env_kwargs=kwargs)


@pytest.mark.parametrize("budget", [{"episodes": 400}, {"steps": 100 * 60}])
def test_long_episodes_count_as_often_as_short_ones(budget):
    """Of those that end within 60 steps, a third is long; half of those that begin is."""
    scores = play(Always(), make_lengths(100), **budget)
    assert abs(scores.mean - 0.5) < 0.08
    assert scores.success_rate == scores.mean
    assert set(scores.lengths) == {1, 50}


@pytest.mark.parametrize(("episodes", "shares"), [(10, [2, 2, 3, 3]), (2, [0, 0, 1, 1])])
def test_each_environment_plays_its_share_of_the_episodes(episodes, shares):
    env = DummyVecEnv([lambda n=n: Monitor(Lengths([n])) for n in (1, 2, 3, 4)])
    lengths = play(Always(), env, episodes=episodes).lengths
    assert [lengths.count(n) for n in (1, 2, 3, 4)] == shares


def test_an_episode_that_has_begun_when_the_steps_are_over_is_played_to_its_end():
    env = DummyVecEnv([lambda n=n: Monitor(Lengths([n])) for n in (4, 7)])
    # 5 steps each: the second episode of 4 begins after 4 of them, the third after 8
    assert sorted(play(Always(), env, steps=10).lengths) == [4, 4, 7]


@pytest.mark.parametrize("algorithm", [PPO, RecurrentPPO])
def test_scores_are_those_of_sb3(algorithm):
    policy = "MlpPolicy" if algorithm is PPO else "MlpLstmPolicy"
    model = algorithm(policy, "CartPole-v1", n_steps=8, batch_size=8, seed=0, device="cpu")
    rewards, lengths = evaluate_policy(model, make_vec_env("CartPole-v1", 3, seed=2), 7, return_episode_rewards=True)
    assert play(model, make_vec_env("CartPole-v1", 3, seed=2), episodes=7).rewards == tuple(rewards)
    assert play(model, make_vec_env("CartPole-v1", 3, seed=2), episodes=7).lengths == tuple(lengths)


class Masked(Lengths):
    """Only the action that a mask allows is possible."""

    action_space = spaces.Discrete(3)

    def action_masks(self):
        return np.arange(3) == self._left % 3

    def step(self, action):
        assert action == self._left % 3, "an action that is not possible"
        return super().step(action)


def test_masks_are_told_to_an_agent_that_knows_of_them():
    def make():
        return make_vec_env(Masked, 2, seed=3, env_kwargs={"lengths": [2, 5, 9]})

    model = MaskablePPO("MlpPolicy", make(), n_steps=8, batch_size=8, seed=0, device="cpu")
    rewards, _ = evaluate_masked_policy(model, make(), 5, return_episode_rewards=True)
    assert play(model, make(), episodes=5).rewards == tuple(rewards)
    with pytest.raises(AssertionError, match="not possible"):
        play(model, make(), episodes=50, use_masks=False)


def test_an_agent_gets_its_memory_back_and_hears_of_new_episodes():
    agent = Always()
    play(agent, make_lengths(1, lengths=[2]), episodes=2)
    assert agent.heard == [(None, [True]), (1, [False]), (2, [True]), (3, [False])]


class Game(gym.Env):
    """Three lives; the reward is the action."""

    observation_space = spaces.Box(0.0, 1.0, (1,), np.float32)
    action_space = spaces.Discrete(2)

    def __init__(self, life):
        self._life = life
        self.ale = SimpleNamespace(lives=lambda: 3 - self._step // life)

    def reset(self, *, seed=None, options=None):
        self._step = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self._step += 1
        return np.zeros(1, np.float32), float(action), self._step == 3 * self._life, False, {}


def test_a_game_that_another_agent_has_begun_is_not_played_on():
    # When the second game ends, the first environment has begun another one, which its reset would go on with
    env = DummyVecEnv([lambda n=n: EpisodicLifeEnv(Monitor(Game(n))) for n in (4, 6)])
    for action in (0, 1):
        scores = play(Always(action), env, episodes=2)
    lives_lost = 2  # after each of which the wrapper makes a step of its own, without a reward
    assert sorted(scores.rewards) == [12 - lives_lost, 18 - lives_lost]


@pytest.mark.parametrize("budget", [{}, {"episodes": 1, "steps": 1}, {"episodes": 0}, {"steps": 0}])
def test_a_budget_that_can_not_be_played_is_told_of(budget):
    with pytest.raises(ValueError, match="give one of them"):
        play(Always(), make_lengths(1), **budget)


def test_without_a_monitor_there_is_a_warning():
    with pytest.warns(UserWarning, match="not in a Monitor"):
        scores = play(Always(), DummyVecEnv([lambda: Lengths([3], long=3)]), episodes=2)
    assert (scores.rewards, scores.lengths) == ((1.0, 1.0), (3, 3))


def test_scores_have_their_statistics():
    scores = Scores((1.0, 3.0), (2, 4))
    assert (scores.mean, scores.std, scores.mean_length, scores.success_rate) == (2.0, 1.0, 3.0, None)
