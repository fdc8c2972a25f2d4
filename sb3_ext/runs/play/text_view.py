"""An observation as lines of text: names, numbers and bars, or an image in characters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import cv2
import numpy as np
from gymnasium import spaces

__all__ = ["TextView"]

#: Of observations with more numbers than this, these are shown
_MAX_NUMBERS = 24
_BAR = 25
_IMAGE = (64, 24)
_SHADES = " .:-=+*#%@"
#: A space whose bounds are this far away says nothing about the numbers
_FAR = 1000.0


class TextView:
    """
    :param labels: of the numbers of a vector
    :param is_ascii: whether the terminal has only ASCII
    """

    def __init__(self, space: spaces.Space[Any], labels: Sequence[str] = (), is_ascii: bool = False) -> None:
        self._space = space
        self._labels = labels
        self._marks = "#.|" if is_ascii else "█·│"
        #: Of each vector without bounds, the largest numbers so far
        self._largest: dict[str, np.ndarray] = {}

    def lines(self, observation: Any) -> list[str]:
        return self._lines("", self._space, observation)

    def _lines(self, name: str, space: spaces.Space[Any], observation: Any) -> list[str]:
        if isinstance(space, spaces.Dict) and isinstance(observation, Mapping):
            return [line for key, part in space.items() for line in self._lines(key, part, observation[key])]
        values = np.asarray(observation)
        if isinstance(space, spaces.Discrete):
            return [f"{name or 'state'}  {int(values)} of {int(space.n)}"]
        if isinstance(space, spaces.Box) and values.ndim > 1 and min(sorted(values.shape)[-2:]) > 7:
            return [name] * bool(name) + _image(values)
        return self._numbers(name, space, values.ravel().astype(float))

    def _numbers(self, name: str, space: spaces.Space[Any], values: np.ndarray) -> list[str]:
        low, high = self._range(name, space, values)
        labels = list(self._labels) if not name and len(self._labels) == values.size else []
        labels = labels or [f"{name or 'number'} {index}" for index in range(values.size)]
        width = max(map(len, labels), default=0)
        shown = zip(labels, values, low, high, strict=True)
        lines = [f"{label:<{width}}  {value:>9.3f}  {self._bar(value, *ends)}" for label, value, *ends in shown]
        more = len(lines) - _MAX_NUMBERS
        return [*lines[:_MAX_NUMBERS], f"and {more} more"] if more > 0 else lines

    def _range(self, name: str, space: spaces.Space[Any], values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        largest = np.maximum(self._largest.get(name, np.full(values.size, 1e-9)), np.abs(values))
        self._largest[name] = largest
        if not isinstance(space, spaces.Box):
            return np.zeros(values.size), largest
        low, high = space.low.ravel().astype(float), space.high.ravel().astype(float)
        is_near = (np.abs(low) < _FAR) & (np.abs(high) < _FAR)
        return np.where(is_near, low, -largest), np.where(is_near, high, largest)

    def _bar(self, value: float, low: float, high: float) -> str:
        """From zero to the value."""
        full, empty, zero = tuple(self._marks)

        def cell(number: float) -> int:
            share = (number - low) / (high - low) if high > low else 0.0
            return round(min(max(share, 0.0), 1.0) * (_BAR - 1))

        start, end = sorted((cell(0.0), cell(value)))
        cells = [full if start <= index <= end else empty for index in range(_BAR)]
        cells[cell(0.0)] = zero
        return "".join(cells)


def _image(values: np.ndarray) -> list[str]:
    """The last channel, which is the newest picture of a stack, in shades."""
    if values.ndim > 2:
        values = values.reshape(-1, *values.shape[-3:])[-1]
        values = values[-1] if values.shape[0] < values.shape[-1] else values[..., -1]
    small = cv2.resize(values.astype(np.float32), _IMAGE, interpolation=cv2.INTER_AREA)
    darkest, span = small.min(), max(np.ptp(small), 1e-9)
    shades = ((small - darkest) / span * (len(_SHADES) - 1)).round().astype(int)
    return ["".join(_SHADES[shade] for shade in row) for row in shades.tolist()]
