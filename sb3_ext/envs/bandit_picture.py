"""The picture of ``Bandit-v0``: what each arm gives, how often it was pulled, and what the last pull gave."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np

__all__ = ["BanditPicture"]

_WIDTH, _HEIGHT = 640, 360
#: Where the arms are: left, top, right, bottom. Below are their numbers and pulls.
_LEFT, _TOP, _RIGHT, _BOTTOM = 56, 44, 628, 262
_BACKGROUND, _INK, _GREY = (250, 250, 248), (40, 44, 52), (190, 194, 200)
_ARM, _BEST, _PULLED, _COUNT = (122, 162, 204), (104, 176, 118), (222, 106, 74), (130, 108, 180)
_COUNT_ROOM = 34


class BanditPicture:
    """Drawn with pygame, which opens a window only in :meth:`show`."""

    def __init__(self) -> None:
        try:
            import pygame
        except ImportError as error:
            raise gym.error.DependencyNotInstalled(
                'pygame is not installed, run `pip install "gymnasium[classic-control]"`'
            ) from error
        self._pygame: Any = pygame
        pygame.font.init()
        self._font = pygame.font.Font(None, 20)
        self._surface = pygame.Surface((_WIDTH, _HEIGHT))
        self._window: Any = None
        self._clock: Any = None

    def draw(
        self,
        means: np.ndarray,
        stds: np.ndarray,
        pulls: np.ndarray,
        last_arm: int | None,
        last_reward: float,
        title: str,
    ) -> None:
        """
        :param means: mean reward of each arm: its bar, green for the best
        :param stds: standard deviations: the line over the bar's end
        :param pulls: how often each was pulled: the bar below, and the number
        :param last_arm: the arm just pulled: framed
        :param last_reward: what it gave: the dot, at the edge where it is outside
        :param title: the line on top
        """
        fill = self._pygame.draw.rect
        self._surface.fill(_BACKGROUND)
        self._text(title, _LEFT, 14)
        low, high = self._range(means, stds)
        zero = self._height_of(0.0, low, high)
        self._axis(low, high, zero)
        slot = (_RIGHT - _LEFT) / means.size
        for arm, (mean, std) in enumerate(zip(means, stds, strict=True)):
            x, width = int(_LEFT + slot * (arm + 0.15)), max(1, int(slot * 0.7))
            top, bottom = sorted((zero, self._height_of(mean, low, high)))
            fill(self._surface, _BEST if mean == means.max() else _ARM, (x, top, width, max(1, bottom - top)))
            self._whisker(x + width // 2, mean, std, low, high)
            count = round(_COUNT_ROOM * pulls[arm] / max(1, pulls.max()))
            fill(self._surface, _COUNT, (x, _BOTTOM + 32, width, count))
            # Numbers of every arm as long as there is room for them
            if arm % max(1, round(28 / slot)) == 0:
                self._text(str(arm), x + width // 2, _BOTTOM + 12, centred=True)
                self._text(str(pulls[arm]), x + width // 2, _BOTTOM + 72, centred=True, colour=_COUNT)
            if arm == last_arm:
                frame = (x - 3, _TOP - 4, width + 6, _HEIGHT - _TOP)
                fill(self._surface, _PULLED, frame, width=2, border_radius=4)
                dot = self._height_of(float(np.clip(last_reward, low, high)), low, high)
                self._pygame.draw.circle(self._surface, _PULLED, (x + width // 2, dot), max(3, min(6, width // 2)))

    def pixels(self) -> np.ndarray:
        """:return: the picture, rows, columns, 3"""
        return np.ascontiguousarray(self._pygame.surfarray.array3d(self._surface).transpose(1, 0, 2))

    def show(self, fps: int) -> None:
        """
        Show it in a window.

        :param fps: pictures a second: waits as long as that takes
        """
        if self._window is None:
            self._pygame.display.init()
            self._window = self._pygame.display.set_mode((_WIDTH, _HEIGHT))
            self._pygame.display.set_caption("Bandit-v0")
            self._clock = self._pygame.time.Clock()
        self._window.blit(self._surface, (0, 0))
        self._pygame.event.pump()
        self._pygame.display.flip()
        self._clock.tick(fps)

    def close(self) -> None:
        """Close the window, if there is one."""
        if self._window is not None:
            self._pygame.display.quit()
            self._window = None

    @staticmethod
    def _range(means: np.ndarray, stds: np.ndarray) -> tuple[float, float]:
        """Zero and all whiskers of two deviations are inside."""
        low, high = min(0.0, (means - 2 * stds).min()), max(0.0, (means + 2 * stds).max())
        return float(low), float(high if high > low else low + 1.0)

    @staticmethod
    def _height_of(value: float, low: float, high: float) -> int:
        return round(_BOTTOM - (_BOTTOM - _TOP) * (value - low) / (high - low))

    def _axis(self, low: float, high: float, zero: int) -> None:
        line = self._pygame.draw.line
        for value in (low, high):
            y = self._height_of(value, low, high)
            line(self._surface, _GREY, (_LEFT - 4, y), (_RIGHT, y))
            if abs(y - zero) > 12:
                self._text(f"{value:.3g}", 8, y - 6)
        line(self._surface, _INK, (_LEFT - 4, zero), (_RIGHT, zero))
        self._text("0", 8, zero - 6)
        self._text("arm", 8, _BOTTOM + 12)
        self._text("pulls", 8, _BOTTOM + 72, colour=_COUNT)

    def _whisker(self, x: int, mean: float, std: float, low: float, high: float) -> None:
        """One deviation to both sides."""
        ends = [self._height_of(mean + side * std, low, high) for side in (-1, 1)]
        self._pygame.draw.line(self._surface, _INK, (x, ends[0]), (x, ends[1]))
        for y in ends:
            self._pygame.draw.line(self._surface, _INK, (x - 3, y), (x + 3, y))

    def _text(self, text: str, x: int, y: int, centred: bool = False, colour: tuple[int, int, int] = _INK) -> None:
        drawn = self._font.render(text, True, colour)
        self._surface.blit(drawn, (x - drawn.get_width() // 2 if centred else x, y))
