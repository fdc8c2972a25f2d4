"""Where Atari games keep their objects in their 128 bytes of RAM, and the ids that read them.

Each address was checked against the picture (tests/envs/test_objects.py does it again): ``scale`` times the byte plus
``offset`` is the pixel at the object's centre, on a screen of 160 x 210 with (0, 0) at the top left.
"""

from dataclasses import dataclass
from typing import NamedTuple

import gymnasium as gym

__all__ = ["OBJECT_GAMES", "SCREEN", "Axis", "Crossing", "GameObject", "ObjectGame", "register_objects"]

#: Width and height in pixels
SCREEN = (160, 210)


class Axis(NamedTuple):
    """
    :param offset: pixel at a byte of 0; without an address, the fixed position
    :param scale: pixels per step of the byte
    :param low: lowest byte while the object is there
    :param high: highest one
    """

    offset: float
    address: int | None = None
    scale: float = 1.0
    low: int = 0
    high: int = 255


class GameObject(NamedTuple):
    """:param speed: usual top speed in pixels per frame, a velocity of 1"""

    name: str
    x: Axis
    y: Axis
    speed: float


class Crossing(NamedTuple):
    """
    A moving object on its way to another one, which moves along a line.

    :param player: the object that moves along a line
    :param target: the object that comes
    :param walls: pixels at both ends of the line, where the target bounces off
    """

    player: str
    target: str
    walls: tuple[float, float]


@dataclass(frozen=True)
class ObjectGame:
    """
    :param rom: ale-py's name of the game
    :param relative: pairs of objects; the position of the second relative to the first is worth knowing
    :param reach: distance in pixels that counts as far for these pairs
    :param crossing: where the game is won: the ball at the paddle
    :param bits: address and bit of each object in a formation, named ``formation``
    :param swap: an address, and pairs of addresses that change places while its byte is 1
    :param fire_reset: the game waits for the fire button at the start of each life
    :param threshold: score at which the game counts as solved, with sticky actions and without
    """

    rom: str
    objects: tuple[GameObject, ...]
    relative: tuple[tuple[str, str], ...] = ()
    reach: float = 20.0
    crossing: Crossing | None = None
    bits: tuple[tuple[int, int], ...] = ()
    formation: str = ""
    swap: tuple[int, tuple[tuple[int, int], ...]] | None = None
    fire_reset: bool = False
    threshold: tuple[float | None, float | None] = (None, None)


_PONG = ObjectGame(
    rom="pong",
    objects=(
        GameObject("player", Axis(141.5), Axis(-5.5, 51), speed=8),
        GameObject("enemy", Axis(17.5), Axis(-7.5, 50, low=34), speed=8),
        GameObject("ball", Axis(-48.5, 49), Axis(-12.5, 54, low=45), speed=4),
    ),
    relative=(("player", "ball"),),
    crossing=Crossing("player", "ball", (32.5, 193.5)),
    threshold=(18.0, 20.0),
)


def _brick(row: int, column: int) -> tuple[int, int]:
    """Bricks are drawn as a playfield, whose registers have their bits in different orders; a brick has two bits."""
    for first, address, bit, step in ((15, 0, 0, 2), (11, 6, 6, -2), (9, 12, 4, 2), (5, 18, 0, 2), (1, 24, 6, -2)):
        if column >= first:
            return address + 5 - row, bit + step * (column - first)
    return 30 + 5 - row, 6


_BREAKOUT = ObjectGame(
    rom="breakout",
    objects=(
        GameObject("player", Axis(-39.5, 72), Axis(190.5), speed=8),
        GameObject("ball", Axis(-48.5, 99), Axis(10.5, 101, low=1, high=186), speed=4),
    ),
    relative=(("player", "ball"),),
    crossing=Crossing("player", "ball", (7.5, 151.5)),
    bits=tuple(_brick(row, column) for row in range(6) for column in range(18)),
    formation="brick",
    fire_reset=True,
)
_FREEWAY = ObjectGame(
    rom="freeway",
    objects=(
        GameObject("player", Axis(46.5), Axis(196.5, 14, -1.0), speed=2),
        *(GameObject(f"car{i}", Axis(0.5, 117 - i), Axis(31.5 + 16 * i), speed=2) for i in range(10)),
    ),
)
_BOXING = ObjectGame(
    rom="boxing",
    objects=(
        GameObject("player", Axis(11.0, 32), Axis(60.5, 34), speed=4),
        GameObject("enemy", Axis(10.5, 33), Axis(60.5, 35), speed=4),
    ),
    relative=(("player", "enemy"),),
)
_TENNIS = ObjectGame(
    rom="tennis",
    objects=(
        GameObject("player", Axis(6.0, 26), Axis(174.0, 24, -1.0), speed=2.5),
        GameObject("enemy", Axis(6.0, 27), Axis(174.0, 25, -1.0), speed=2.5),
        GameObject("ball", Axis(-1.5, 16, low=3), Axis(189.5, 54, -1.0), speed=6),
        GameObject("shadow", Axis(-1.5, 16, low=3), Axis(189.5, 55, -1.0), speed=6),
    ),
    relative=(("player", "ball"), ("player", "shadow")),
    swap=(80, ((26, 27), (24, 25))),
)
_SPACE_INVADERS = ObjectGame(
    rom="space_invaders",
    objects=(
        GameObject("player", Axis(2.0, 28), Axis(190.0), speed=2),
        GameObject("missile", Axis(-2.0, 87), Axis(7.5, 85, 2.0, high=100), speed=4),
        GameObject("bomb0", Axis(-2.0, 83), Axis(7.5, 81, 2.0, high=200), speed=3),
        GameObject("bomb1", Axis(-2.0, 84), Axis(7.5, 82, 2.0, high=200), speed=3),
        GameObject("invaders", Axis(-1.0, 26), Axis(31.0, 16, 2.0), speed=4),
        GameObject("saucer", Axis(2.0, 30, low=1), Axis(15.5), speed=2),
    ),
    relative=(("player", "bomb0"), ("player", "bomb1")),
    bits=tuple((23 - row, column) for row in range(6) for column in range(6)),
    formation="invader",
)

#: The games, by the name that Gymnasium's ids start with
OBJECT_GAMES = {
    "Pong": _PONG,
    "Breakout": _BREAKOUT,
    "Freeway": _FREEWAY,
    "Boxing": _BOXING,
    "Tennis": _TENNIS,
    "SpaceInvaders": _SPACE_INVADERS,
}


def register_objects() -> list[str]:
    """
    Register ``Pong-v5_objects`` (sticky actions, as in the v5 protocol), ``PongDeterministic-v5_objects`` and so on,
    and return the ids.

    Gymnasium takes such an id for a name without version.
    """
    ids = []
    for name, game in OBJECT_GAMES.items():
        for kind, sticky, threshold in zip(("", "Deterministic"), (0.25, 0.0), game.threshold, strict=True):
            env_id = f"{name}{kind}-v5_objects"
            ids.append(env_id)
            if env_id not in gym.registry:
                gym.register(
                    env_id,
                    entry_point="sb3_ext.envs.objects:AtariObjectsEnv",
                    reward_threshold=threshold,
                    max_episode_steps=27_000,  # half an hour of play: 108,000 frames
                    kwargs={"game": name, "repeat_action_probability": sticky},
                )
    return ids
