"""A game in a window, without a display: SDL's dummy driver, and keys as pygame's events."""

import numpy as np
import pytest
from filmed_env import FadingEnv
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv

from sb3_ext.runs.play.episode_table import play_episode
from sb3_ext.runs.play.frames import CantRender
from sb3_ext.runs.play.game import Game
from sb3_ext.runs.play.keys import make_key_map


@pytest.fixture
def pygame(monkeypatch):
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    import pygame

    pygame.display.init()  # names of keys need it
    return pygame


class Events(FadingEnv):
    """Posts events after some of its steps, and looks at the window before each."""

    def __init__(self, pygame, events, length=4):
        super().__init__(length)
        self._pygame, self._events = pygame, events
        self.reds = []

    def step(self, action):
        window = self._pygame.display.get_surface()
        width, height = window.get_size()
        self.reds.append(window.get_at((width // 2, height // 2))[0])
        for event in self._events.get(len(self.reds), ()):
            self._pygame.event.post(event)
        return super().step(action)


def play(pygame, events, length=4, waits=False, first=()):
    from sb3_ext.runs.play.window import Window

    env = DummyVecEnv([lambda: Monitor(Events(pygame, events, length))])
    keys = make_key_map(env.action_space, ["STAY", "GO"], [])
    with Window(env, keys, fps=500, title="a game") as window:
        for event in first:
            pygame.event.post(event)
        game = Game(env, window, keys, fps=500, waits=waits)
        table = play_episode(game, env, seed=0, watch=game.watch)
        last = pygame.display.get_surface().get_at((480, 340))[0]
    return table, env.envs[0].unwrapped, last


def key(pygame, kind, name):
    return pygame.event.Event(getattr(pygame, kind), key=pygame.key.key_code(name))


def test_a_key_counts_while_it_is_held(pygame):
    down, up = key(pygame, "KEYDOWN", "g"), key(pygame, "KEYUP", "g")
    table, _, _ = play(pygame, {1: [down], 3: [up]}, length=5)
    assert table["action_label"].tolist() == ["STAY", "GO", "GO", "STAY", "STAY"]


def test_a_key_that_is_pressed_for_a_moment_counts_once(pygame):
    table, _, _ = play(pygame, {1: [key(pygame, "KEYDOWN", "g"), key(pygame, "KEYUP", "g")]})
    assert table["action_label"].tolist() == ["STAY", "GO", "STAY", "STAY"]


def test_the_window_shows_the_picture_before_each_step_and_the_last_one(pygame):
    _, env, last = play(pygame, {})
    assert env.reds == [250, 225, 200, 175] and last == 150


def test_a_game_in_turns_waits_for_each_key(pygame):
    tap = [key(pygame, "KEYDOWN", "g"), key(pygame, "KEYUP", "g")]
    table, _, _ = play(pygame, {1: tap, 2: [key(pygame, "KEYDOWN", "s")]}, length=3, waits=True, first=tap)
    assert table["action_label"].tolist() == ["GO", "GO", "STAY"]


@pytest.mark.parametrize("how", ["escape", "q", "close"])
def test_the_person_can_end_the_game(pygame, how):
    event = pygame.event.Event(pygame.QUIT) if how == "close" else key(pygame, "KEYDOWN", how)
    table, _, _ = play(pygame, {2: [event]})
    assert len(table) == 2 and not table["terminated"].any()


def test_an_environment_without_pictures_has_no_window(pygame):
    from sb3_ext.runs.play.window import Window

    env = DummyVecEnv([lambda: Monitor(FadingEnv(render_mode=None))])
    with pytest.raises(CantRender, match="render mode is None"):
        Window(env, None, 30, "a game")
    assert np.ndim(env.envs[0].unwrapped.render()) == 3
