"""Turns the bytes of an Atari game's RAM into numbers in [-1, 1]: where its objects are and how they move.

Plain Python: for a few objects, calling NumPy takes several times longer.
"""

from __future__ import annotations

import math

import numpy as np

from sb3_ext.envs.object_games import SCREEN, Axis, ObjectGame

__all__ = ["ObjectReader"]

#: Features of each object
_FEATURES = ("x", "y", "vx", "vy", "there")
_NOT_THERE = (0.0, 0.0, 0.0, 0.0, 0.0)
#: Beyond this multiple of the usual top speed, an object has jumped
_JUMP = 2

_Place = tuple[float, float]


class ObjectReader:
    """
    Remembers the previous positions to compute velocities, so each game needs its own reader.

    :param frames: most frames between two steps
    :param relative: whether to read positions relative to other objects
    """

    def __init__(self, game: ObjectGame, frames: int, relative: bool) -> None:
        self._names = [thing.name for thing in game.objects]
        self._places_of = [
            (thing.x.address or 0, _pixels(thing.x, SCREEN[0]), thing.y.address or 0, _pixels(thing.y, SCREEN[1]))
            for thing in game.objects
        ]
        self._swap = -1 if game.swap is None else game.swap[0]
        partners = {a: b for pair in (game.swap or (0, ()))[1] for a, b in (pair, pair[::-1])}
        self._swapped_places_of = [(partners.get(x, x), xs, partners.get(y, y), ys) for x, xs, y, ys in self._places_of]
        self._top_speeds = [frames * thing.speed for thing in game.objects]
        pairs = game.relative if relative else ()
        self._pairs = [(self._names.index(origin), self._names.index(target)) for origin, target in pairs]
        self._reach = game.reach
        self._bit_addresses = np.array([address for address, _ in game.bits], dtype=np.intp)
        self._bit_masks = np.array([1 << bit for _, bit in game.bits], dtype=np.uint8)
        self.feature_names = (
            *(f"{name}.{feature}" for name in self._names for feature in _FEATURES),
            *(f"{target} from {origin}.{axis}" for origin, target in pairs for axis in ("x", "y")),
            *(f"{game.formation}{i}" for i in range(len(game.bits))),
        )
        self.forget()

    def forget(self) -> None:
        """Call at the start of an episode."""
        self._last: list[_Place | None] = [None] * len(self._names)

    def read(self, ram: np.ndarray, out: np.ndarray) -> None:
        """Write the features to the first numbers of ``out``."""
        places = self._places(ram)
        numbers: list[float] = []
        for place, last, top_speed in zip(places, self._last, self._top_speeds, strict=True):
            if place is None:
                numbers += _NOT_THERE
                continue
            x, y = place
            vx, vy = (0.0, 0.0) if last is None else ((x - last[0]) / top_speed, (y - last[1]) / top_speed)
            if not (-1.0 <= vx <= 1.0 and -1.0 <= vy <= 1.0):
                vx, vy = _limited(vx, vy)
            numbers += (2 * x / SCREEN[0] - 1, 2 * y / SCREEN[1] - 1, vx, vy, 1.0)
        for origin, target in self._pairs:
            here, there = places[origin], places[target]
            if here is None or there is None:
                numbers += (0.0, 0.0)
            else:
                (x, y), (from_x, from_y), reach = there, here, self._reach
                numbers += (math.tanh((x - from_x) / reach), math.tanh((y - from_y) / reach))
        out[: len(numbers)] = numbers
        if len(self._bit_masks):
            bits = ram[self._bit_addresses] & self._bit_masks
            out[len(numbers) : len(numbers) + len(bits)] = bits != 0
        self._last = places

    def positions(self, ram: np.ndarray) -> dict[str, _Place]:
        """The pixel at the centre of each object that is there."""
        places = zip(self._names, self._places(ram), strict=True)
        return {name: place for name, place in places if place is not None}

    def _places(self, ram: np.ndarray) -> list[_Place | None]:
        values = ram.tobytes()
        swapped = self._swap >= 0 and values[self._swap] == 1
        places: list[_Place | None] = []
        for x_address, xs, y_address, ys in self._swapped_places_of if swapped else self._places_of:
            x, y = xs[values[x_address]], ys[values[y_address]]
            places.append(None if x is None or y is None else (x, y))
        return places


def _limited(vx: float, vy: float) -> tuple[float, float]:
    """Far too fast is not a movement: the game moved the object elsewhere, or replaced it."""
    if max(abs(vx), abs(vy)) > _JUMP:
        return 0.0, 0.0
    return max(-1.0, min(1.0, vx)), max(-1.0, min(1.0, vy))


def _pixels(axis: Axis, size: int) -> list[float | None]:
    """The pixel for each value of the byte; ``None`` if the object is not there or off the screen."""
    pixels: list[float | None] = []
    for value in range(256):
        pixel = axis.offset if axis.address is None else axis.offset + axis.scale * value
        possible = 0 <= pixel <= size and (axis.address is None or axis.low <= value <= axis.high)
        pixels.append(pixel if possible else None)
    return pixels
