"""A game in a window, with keys that count while they are held."""

from __future__ import annotations

import os
from collections.abc import Collection
from types import TracebackType

import numpy as np
from stable_baselines3.common.vec_env import VecEnv
from stable_baselines3.common.vec_env.base_vec_env import VecEnvObs

from sb3_ext.runs.play.episode_table import Stopped
from sb3_ext.runs.play.frames import Frames
from sb3_ext.runs.play.game import Status
from sb3_ext.runs.play.keys import KeyMap
from sb3_ext.runs.play.overlay import scaled

os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")
import pygame

__all__ = ["Window"]

_SIZE = (960, 720)
#: Height of the line below the picture
_LINE = 40
_WAITING_FPS = 30
#: Milliseconds until a key that is held is pressed again, and between two of these
_REPEAT = (300, 120)
_NAMES = {"return": "enter", "keypad enter": "enter"}


class Window:
    """
    A context manager.

    :param env: a ``DummyVecEnv`` in the render mode ``rgb_array``
    """

    def __init__(self, env: VecEnv, keys: KeyMap | None, fps: float, title: str) -> None:
        self._env, self._keys, self._fps = env, keys, fps
        self._title = title
        self._frames = Frames.of(env, self._take)
        self._picture: np.ndarray | None = None
        self._held: set[str] = set()
        self._clock = pygame.time.Clock()

    def __enter__(self) -> Window:
        pygame.display.init()
        pygame.font.init()
        pygame.display.set_caption(self._title)
        self._screen = pygame.display.set_mode(_SIZE, pygame.RESIZABLE)
        pygame.key.set_repeat(*_REPEAT)
        self._font = pygame.font.Font(None, 28)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._frames.__exit__(kind, error, trace)
        pygame.display.quit()

    def _take(self, picture: np.ndarray) -> None:
        self._picture = picture

    def show(self, observations: VecEnvObs | None, status: Status) -> None:
        if not status.step:
            self._frames.take_picture()
        assert self._picture is not None
        width, height = self._screen.get_size()
        fitting = scaled(np.ascontiguousarray(self._picture), width, max(height - _LINE, 1))
        self._screen.fill("black")
        place = ((width - fitting.shape[1]) // 2, (height - _LINE - fitting.shape[0]) // 2)
        self._screen.blit(pygame.surfarray.make_surface(fitting.swapaxes(0, 1)), place)
        self._screen.blit(self._font.render(str(status), True, "white"), (10, height - _LINE + 10))
        pygame.display.flip()

    def held_keys(self, wait: bool) -> Collection[str]:
        pressed: set[str] = set()
        try:
            while True:
                self._clock.tick(_WAITING_FPS if wait else self._fps)
                # In turns, keys that were pressed quickly are one step each
                while not (wait and pressed) and (event := pygame.event.poll()).type != pygame.NOEVENT:
                    self._receive(event, pressed)
                if pressed or not wait:
                    # A key that was pressed and released within the step counts too
                    return self._held | pressed
        except KeyboardInterrupt:
            raise Stopped from None

    def _receive(self, event: pygame.event.Event, pressed: set[str]) -> None:
        if event.type == pygame.QUIT:
            raise Stopped
        if event.type not in (pygame.KEYDOWN, pygame.KEYUP):
            return
        name = pygame.key.name(event.key)
        name = _NAMES.get(name, name).lower()
        if event.type == pygame.KEYUP:
            self._held.discard(name)
        elif name == "escape" or (name == "q" and not (self._keys and self._keys.is_bound("q"))):
            raise Stopped
        else:
            self._held.add(name)
            pressed.add(name)
