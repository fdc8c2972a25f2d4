"""The picture of ``Bandit-v0``: what each arm gives, how often it was pulled, and the last pull."""

import cv2
import numpy as np

__all__ = ["draw_bandit"]

_WIDTH, _HEIGHT = 640, 360
#: Where the arms are: left, top, right, bottom. Below are their numbers and pulls
_LEFT, _TOP, _RIGHT, _BOTTOM = 56, 44, 628, 262
_BACKGROUND, _INK, _GREY = (250, 250, 248), (40, 44, 52), (190, 194, 200)
_ARM, _BEST, _PULLED, _COUNT = (122, 162, 204), (104, 176, 118), (222, 106, 74), (130, 108, 180)
_COUNT_ROOM = 34


def draw_bandit(
    means: np.ndarray, stds: np.ndarray, pulls: np.ndarray, last_arm: int | None, last_reward: float, title: str
) -> np.ndarray:
    """Each arm is a bar with a whisker of one standard deviation; its pulls are below, and the last one is framed."""
    picture = np.full((_HEIGHT, _WIDTH, 3), _BACKGROUND, np.uint8)
    low, high = min(0.0, (means - 2 * stds).min()), max(0.0, (means + 2 * stds).max())
    high = high if high > low else low + 1.0

    def height(value: float) -> int:
        return round(_BOTTOM - (_BOTTOM - _TOP) * (value - low) / (high - low))

    _write(picture, title, _LEFT, 24)
    _draw_axis(picture, {low: height(low), high: height(high)}, height(0.0))
    slot = (_RIGHT - _LEFT) / means.size
    for arm, (mean, std) in enumerate(zip(means, stds, strict=True)):
        x, width = int(_LEFT + slot * (arm + 0.15)), max(1, int(slot * 0.7))
        middle = x + width // 2
        _fill(picture, _BEST if mean == means.max() else _ARM, x, height(0.0), width, height(mean))
        cv2.line(picture, (middle, height(mean - std)), (middle, height(mean + std)), _INK)
        for end in (height(mean - std), height(mean + std)):
            cv2.line(picture, (middle - 3, end), (middle + 3, end), _INK)
        count = round(_COUNT_ROOM * pulls[arm] / max(1, pulls.max()))
        _fill(picture, _COUNT, x, _BOTTOM + 32, width, _BOTTOM + 32 + count)
        # Numbers of every arm as long as there is room for them
        if arm % max(1, round(28 / slot)) == 0:
            _write(picture, str(arm), middle, _BOTTOM + 22, centred=True)
            _write(picture, str(pulls[arm]), middle, _BOTTOM + 82, centred=True, colour=_COUNT)
        if arm == last_arm:
            cv2.rectangle(picture, (x - 3, _TOP - 4), (x + width + 3, _HEIGHT - 4), _PULLED, 2)
            dot = height(float(np.clip(last_reward, low, high)))
            cv2.circle(picture, (middle, dot), max(3, min(6, width // 2)), _PULLED, cv2.FILLED, cv2.LINE_AA)
    return picture


def _draw_axis(picture: np.ndarray, ends: dict[float, int], zero: int) -> None:
    for value, y in ends.items():
        cv2.line(picture, (_LEFT - 4, y), (_RIGHT, y), _GREY)
        if abs(y - zero) > 12:
            _write(picture, f"{value:.3g}", 8, y + 4)
    cv2.line(picture, (_LEFT - 4, zero), (_RIGHT, zero), _INK)
    _write(picture, "0", 8, zero + 4)
    _write(picture, "arm", 8, _BOTTOM + 22)
    _write(picture, "pulls", 8, _BOTTOM + 82, colour=_COUNT)


def _fill(picture: np.ndarray, colour: tuple[int, int, int], x: int, start: int, width: int, end: int) -> None:
    if start != end:
        cv2.rectangle(picture, (x, start), (x + width - 1, end), colour, cv2.FILLED)


def _write(
    picture: np.ndarray, text: str, x: int, y: int, centred: bool = False, colour: tuple[int, int, int] = _INK
) -> None:
    font, scale = cv2.FONT_HERSHEY_SIMPLEX, 0.42
    width = cv2.getTextSize(text, font, scale, 1)[0][0]
    cv2.putText(picture, text, (x - width // 2 if centred else x, y), font, scale, colour, 1, cv2.LINE_AA)
