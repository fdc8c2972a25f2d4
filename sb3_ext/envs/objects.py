"""Atari games whose observations are the positions and velocities of their objects, read from the emulator's RAM."""

import math
from typing import Any, Literal

import ale_py
import numpy as np
from ale_py.env import AtariEnv
from gymnasium import spaces
from gymnasium.utils import EzPickle

from sb3_ext.common.arguments import read_flag, read_whole
from sb3_ext.common.names import check_choice, checked_keywords
from sb3_ext.envs.object_games import OBJECT_GAMES, SCREEN, Axis, ObjectGame

__all__ = ["AtariObjectsEnv", "ObjectReader"]

_FRAMES_PER_SECOND = 60
#: Features of each object
_FEATURES = ("x", "y", "vx", "vy", "there")
_NOT_THERE = (0.0, 0.0, 0.0, 0.0, 0.0)
#: Beyond this multiple of the usual top speed, an object has jumped
_JUMP = 2
#: Parts of a game's reach at which the two numbers of a crossing are finest
_FINE, _COARSE = 0.3, 1.5

_Place = tuple[float, float]


class AtariObjectsEnv(AtariEnv):
    """
    The game, its actions, rewards and episodes are those of ale-py. The observation is a vector of numbers in [-1, 1].

    Each object has five: its position (x, y), its movement since the last step (vx, vy), and whether it is there. All
    are zero for an object that is not there. One that has just appeared or jumped has no movement. ``feature_names``
    names all numbers.

    :param game: one of ``OBJECT_GAMES``
    :param frameskip: frames per action, or the range they are drawn from, without its end
    :param previous_action: add the last action, one-hot
    :param relative: add the positions of some objects relative to others (the ball to the paddle), finest when they are
        near
    :param crossing: add where the ball will cross the paddle's line, seen from the paddle, if it comes nearer: two
        numbers, one fine and one coarse, and whether it comes. In Pong and Breakout
    :param noop_max: most random frames without action at the start of an episode
    :param fire_reset: press fire at the start of each life; ``None``: in games that wait for it
    """

    @checked_keywords
    def __init__(
        self,
        game: str,
        frameskip: int | tuple[int, int] = 4,
        previous_action: bool = False,
        relative: bool = True,
        crossing: bool = False,
        noop_max: int = 30,
        fire_reset: bool | None = None,
        *,
        mode: int | None = None,
        difficulty: int | None = None,
        repeat_action_probability: float = 0.25,
        full_action_space: bool = False,
        max_num_frames_per_episode: int | None = None,
        render_mode: Literal["human", "rgb_array"] | None = None,
    ) -> None:
        check_choice("game", game, OBJECT_GAMES)
        layout = OBJECT_GAMES[game]
        if isinstance(frameskip, list):  # YAML has no tuples
            frameskip = tuple(frameskip)
        noop_max = read_whole("noop_max", noop_max, at_least=0)
        if not 0 <= repeat_action_probability <= 1:
            raise ValueError(f"repeat_action_probability={repeat_action_probability!r} must be between 0 and 1.")
        if read_flag("crossing", crossing) and layout.crossing is None:
            have_it = ", ".join(name for name, other in OBJECT_GAMES.items() if other.crossing is not None)
            raise ValueError(f"crossing=True: {game} has no line that a ball crosses. These games have one: {have_it}.")
        own: dict[str, Any] = {"previous_action": previous_action, "relative": relative, "crossing": crossing}
        own |= {"noop_max": noop_max, "fire_reset": fire_reset}
        self._has_previous_action = read_flag("previous_action", previous_action)
        self._fires = layout.fire_reset if fire_reset is None else read_flag("fire_reset", fire_reset)
        stock: dict[str, Any] = {
            "frameskip": frameskip,
            "mode": mode,
            "difficulty": difficulty,
            "repeat_action_probability": repeat_action_probability,
            "full_action_space": full_action_space,
            "max_num_frames_per_episode": max_num_frames_per_episode,
            "render_mode": render_mode,
        }
        super().__init__(layout.rom, obs_type="ram", **stock)
        EzPickle.__init__(self, game=game, **own, **stock)
        self._noop_max = noop_max
        self._longest_skip = frameskip if isinstance(frameskip, int) else frameskip[1] - 1
        self.metadata = {**self.metadata, "render_fps": max(_FRAMES_PER_SECOND // self._longest_skip, 1)}
        self._reader = ObjectReader(layout, self._longest_skip, read_flag("relative", relative), crossing)
        actions = [f"last action {name}" for name in self.get_action_meanings()] if self._has_previous_action else []
        self.feature_names = (*self._reader.feature_names, *actions)
        self._n_features = len(self.feature_names)
        self.observation_space = spaces.Box(-1.0, 1.0, (self._n_features,), np.float32)
        self._lives = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, Any]:
        _, reset_info = super().reset(seed=seed, options=options)
        for _ in range(self.np_random.integers(self._noop_max + 1)):
            self.ale.act(ale_py.Action.NOOP)
        if self._fires:
            self._press_fire()
        info: dict[str, Any] = {**reset_info, **self._get_info()}
        self._lives = info["lives"]
        self._reader.forget()
        return self._observe(self.ale.getRAM()), info

    def step(self, action: int | np.ndarray) -> tuple[np.ndarray, float, bool, bool, Any]:
        info: Any
        ram, reward, terminated, truncated, info = super().step(action)
        if self._fires and info["lives"] < self._lives and not terminated:
            reward += self._press_fire()
            ram, info = self.ale.getRAM(), self._get_info()
        self._lives = info["lives"]
        return self._observe(ram, int(action)), reward, terminated, truncated, info

    def positions(self) -> dict[str, tuple[float, float]]:
        """The pixel at the centre of each object that is there."""
        return self._reader.positions(self.ale.getRAM())

    def _observe(self, ram: np.ndarray, last_action: int | None = None) -> np.ndarray:
        observation = np.zeros(self._n_features, dtype=np.float32)
        self._reader.read(ram, observation)
        if self._has_previous_action and last_action is not None:
            observation[last_action - len(self._action_set)] = 1.0
        return observation

    def _press_fire(self) -> float:
        return sum(self.ale.act(ale_py.Action.FIRE) for _ in range(self._longest_skip))


class ObjectReader:
    """
    Turns RAM into features in [-1, 1]. Remembers the previous positions to compute velocities, so each game needs its
    own reader. Plain Python: for a few objects, calling NumPy takes several times longer.

    :param frames: most frames between two steps
    :param relative: whether to read positions relative to other objects
    :param crossing: whether to read where the ball will cross the paddle's line
    """

    def __init__(self, game: ObjectGame, frames: int, relative: bool, crossing: bool = False) -> None:
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
        self._crossing = _CrossingReader(game, self._names, frames) if crossing else None
        self._bit_addresses = np.array([address for address, _ in game.bits], dtype=np.intp)
        self._bit_masks = np.array([1 << bit for _, bit in game.bits], dtype=np.uint8)
        self.feature_names = (
            *(f"{name}.{feature}" for name in self._names for feature in _FEATURES),
            *(f"{target} from {origin}.{axis}" for origin, target in pairs for axis in ("x", "y")),
            *(() if self._crossing is None else self._crossing.feature_names),
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
        if self._crossing is not None:
            numbers += self._crossing.read(places, self._last)
        out[: len(numbers)] = numbers
        if len(self._bit_masks):
            bits = ram[self._bit_addresses] & self._bit_masks
            out[len(numbers) : len(numbers) + len(bits)] = bits != 0
        self._last = places

    def positions(self, ram: np.ndarray) -> dict[str, _Place]:
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


class _CrossingReader:
    """Where the target will cross the player's line, after bouncing off the walls."""

    def __init__(self, game: ObjectGame, names: list[str], frames: int) -> None:
        assert game.crossing is not None
        player, target, (self._low, self._high) = game.crossing
        self._player, self._target = names.index(player), names.index(target)
        #: Axis along the line
        self._along = int(game.objects[self._player].x.address is None)
        self._reach, self._top_speed = game.reach, _JUMP * frames * game.objects[self._target].speed
        self.feature_names = tuple(f"{target} will cross {player}.{what}" for what in ("fine", "coarse", "comes"))

    def read(self, places: list[_Place | None], last: list[_Place | None]) -> tuple[float, float, float]:
        me, now, before = places[self._player], places[self._target], last[self._target]
        if me is None or now is None or before is None:
            return 0.0, 0.0, 0.0
        along, across = self._along, 1 - self._along
        slide, speed, distance = now[along] - before[along], now[across] - before[across], me[across] - now[across]
        if speed * distance <= 0 or max(abs(slide), abs(speed)) > self._top_speed:
            return 0.0, 0.0, 0.0
        beyond = now[along] + slide * distance / speed - self._low
        size = self._high - self._low
        bounced = size - abs(beyond % (2 * size) - size)
        ahead = (self._low + bounced - me[along]) / self._reach
        return math.tanh(ahead / _FINE), math.tanh(ahead / _COARSE), 1.0


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
