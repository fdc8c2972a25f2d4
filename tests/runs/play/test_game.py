"""Who plays: the person while keys are pressed, and for a second after that, or else the agent."""

import gymnasium as gym
import numpy as np
import pytest
from conftest import ACTION_SPACES, RandomEnv
from filmed_env import make_agent
from gymnasium import spaces
from stable_baselines3 import PPO
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv

from sb3_ext.runs.play.episode_table import Stopped, play_episode
from sb3_ext.runs.play.game import Game
from sb3_ext.runs.play.keys import make_key_map
from sb3_ext.runs.play.policy_probe import PolicyProbe


class Script:
    """A screen on which keys are held at given steps, and which remembers what was shown."""

    def __init__(self, *keys):
        self._keys = iter(keys)
        self.shown = []

    def show(self, observations, status):
        self.shown.append((None if observations is None else float(observations[0][0]), status))

    def held_keys(self, wait):
        self.waited = wait
        keys = next(self._keys, ())
        if keys is None:
            raise Stopped
        return keys


KEYS = make_key_map(spaces.Discrete(2), ["STAY", "GO"], [])


def play(screen, agent=None, length=10, **settings):
    loaded = make_agent(length)
    probe = PolicyProbe(loaded.model, 1, True) if agent else None
    game = Game(loaded.env, screen, KEYS, probe, fps=3, **settings)
    return play_episode(game, loaded.env, seed=0, watch=game.watch)


def own_actions():
    """Of the agent, which plays the same at each step of this game."""
    loaded = make_agent(10)
    actions = play_episode(loaded.model, loaded.env, seed=0)["action"]
    assert len(set(actions)) == 1
    return actions.tolist()


def test_a_person_plays_with_keys():
    table = play(Script(("s",), ("g",), ("g",)), length=4)
    # The last key stays where there is none that does nothing: here that is STAY
    assert table["action_label"].tolist() == ["STAY", "GO", "GO", "STAY"]
    assert table.score == 8 and np.isnan(table["value"]).all() and table["return"].tolist() == [8, 6, 4, 2]


def test_where_every_action_does_something_the_last_one_goes_on():
    env = DummyVecEnv([lambda: Monitor(gym.make("CartPole-v1"))])
    game = Game(env, Script(("right",), (), ("left",), ()), make_key_map(env.action_space, ["left", "right"], []))
    assert play_episode(game, env, seed=0, max_steps=4)["action"].tolist() == [1, 1, 0, 0]


def test_the_agent_plays_until_a_key_is_pressed_and_again_a_second_later():
    theirs = own_actions()[0]
    key, ours = ("g", 1) if theirs == 0 else ("s", 0)
    screen = Script((), (), (key,), (key,))
    table = play(screen, agent=True)
    # Three steps are a second; a person without a key stays
    assert table["action"].tolist() == [theirs, theirs, ours, ours, 0, 0, 0, theirs, theirs, theirs]
    assert [status.player for _, status in screen.shown[1:]] == ["agent"] * 2 + ["you"] * 4 + ["agent"] * 4
    assert np.isfinite(table["value"]).all() and "prob_0" in table.columns
    assert np.isnan(table["log_prob"]).tolist() == [False] * 2 + [True] * 5 + [False] * 3


def test_an_agent_that_is_only_watched_plays_as_without_a_screen():
    loaded = make_agent(10)
    alone = play_episode(loaded.model, loaded.env, seed=0)
    watched = play(Script(), agent=True)
    assert list(watched.columns) == list(alone.columns)
    for name in alone.columns:
        np.testing.assert_array_equal(watched[name], alone[name])


def test_a_game_in_turns_waits_for_a_key_that_means_something():
    screen = Script(("x",), (), ("g",), ("up",), ("s",))
    table = play(screen, length=2, waits=True)
    assert table["action"].tolist() == [1, 0] and screen.waited


def test_the_screen_shows_the_state_the_score_and_the_end():
    screen = Script(("g",), ("s",))
    play(screen, length=2)
    assert [observation for observation, _ in screen.shown] == [0.0, 1.0, None]
    assert [str(status) for _, status in screen.shown] == [
        "you: score 0  step 0",
        "you: score 2  step 1  action GO",
        "you: score 4  step 2  action STAY  the episode is over",
    ]


def test_a_game_that_is_ended_gives_the_steps_so_far():
    table = play(Script(("g",), ("g",), None))
    assert len(table) == 2 and not table["terminated"].any()
    with pytest.raises(Stopped):
        play(Script(None))


@pytest.mark.parametrize("name", ACTION_SPACES)
def test_random_actions_and_keys_are_in_the_space(name):
    space = ACTION_SPACES[name]
    env = DummyVecEnv([lambda: Monitor(RandomEnv(spaces.Box(-1.0, 1.0, (1,), np.float32), space))])
    for is_random in (True, False):
        keys = None if is_random else make_key_map(space, [], [])
        screen = Script((), ("1",), ("left", "up"))
        game = Game(env, screen, keys, is_random=is_random)
        table = play_episode(game, env, seed=1, watch=game.watch)  # the environment checks them
        assert len(table) == 7
    assert screen.shown[0][1].player == "you"


def test_random_actions_are_possible_ones():
    class Masked(gym.Wrapper):
        def action_masks(self):
            return np.array([False, True])

    env = DummyVecEnv([lambda: Masked(Monitor(gym.make("CartPole-v1")))])
    game = Game(env, Script(), None, is_random=True)
    assert set(play_episode(game, env, seed=0)["action"]) == {1}


def test_a_person_plays_the_same_game_as_the_agent_with_the_same_seed():
    env = DummyVecEnv([lambda: Monitor(gym.make("CartPole-v1"))])
    model = PPO("MlpPolicy", env, n_steps=8, batch_size=8, device="cpu")
    keys = make_key_map(env.action_space, ["left", "right"], [])
    starts = [
        play_episode(actor, env, seed=7, max_steps=1)["obs_2"][0] for actor in (model, Game(env, Script(), keys), model)
    ]
    assert starts[0] == starts[1] == starts[2]
