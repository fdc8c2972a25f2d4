"""One game in ale-py's C++ emulator, divided into episodes as SB3's ``AtariWrapper`` does.

``AtariVectorEnv`` alone can't replace SB3's wrappers: with ``episodic_life`` it starts a new game after every lost
life, with ``life_loss_info`` it doesn't press FIRE for the next life, and it can't step a single game of a batch. So
each game has its own ``AtariVectorEnv`` with one C++ thread, and the wrappers' extra steps are taken here.
"""

import time
from collections.abc import Generator, Iterator
from typing import Any, NamedTuple

import cv2
import numpy as np
from ale_py import ALEInterface, LoggerMode, roms
from ale_py.vector_env import AtariVectorEnv
from stable_baselines3.common.monitor import ResultsWriter

from sb3_ext.vec_env.atari_config import AtariSettings
from sb3_ext.vec_env.monitor_files import write_whole_lines

__all__ = ["AtariGame", "Frame", "Moves", "Transition", "screen_dims"]

_NOOP, _FIRE, _AFTER_FIRE = 0, 1, 2
_NEW_GAME = -1
_LOGGED_NEW_GAME = 255
# The C++ side cuts the last step short at its time limit and doesn't count no-ops, so the limit is enforced here
_NO_LIMIT = 2**30
#: ale-py can't save this emulator, so its actions since its last seed are repeated. After so many, the next game gets a
#: new seed, which takes about as long as 200 actions
_LONGEST_REPLAY = 10_000
#: Attributes of a game between two steps
_STATE = ("lives", "_score", "_is_over", "_life_lost", "_starts_anew", "_finished", "_seed", "_log")


class Frame(NamedTuple):
    """What the emulator returns for an action."""

    image: np.ndarray
    reward: int
    terminated: bool
    info: dict[str, Any]


class Transition(NamedTuple):
    """A step of the agent; ``first_image`` is the next episode's first frame if the step ends an episode."""

    reward: int
    done: bool
    image: np.ndarray
    first_image: np.ndarray | None
    info: dict[str, Any]


#: Yields actions for the emulator and receives the frame after each
Moves = Generator[int, Frame, Transition]
_Hidden = Generator[int, Frame, Frame]


class AtariGame:
    """
    :param screen: the screen's height and width, to resize frames exactly as SB3's ``WarpFrame`` does; ``None`` lets
        the C++ side resize them, see :class:`~sb3_ext.vec_env.native_atari.NativeAtariVecEnv`
    :param monitor_file: file for finished games, in the format of SB3's ``Monitor``
    :param override_existing: overwrite that file, or append to it
    """

    def __init__(
        self,
        settings: AtariSettings,
        screen: tuple[int, int] | None = None,
        monitor_file: str | None = None,
        override_existing: bool = True,
    ) -> None:
        self._settings = settings
        self._screen_dims = screen
        self._emulator = self._new_emulator()
        self.actions: list[str] = [action.name for action in self._emulator.ale.get_action_set()]
        if self.actions[0] != "NOOP" or "FIRE" in self.actions[2:]:
            raise ValueError(
                f"{settings.game} has the actions {', '.join(self.actions)}, but AtariWrapper needs NOOP first and "
                "FIRE second: use full_action_space."
            )
        self.screen: np.ndarray | None = None
        self.lives = 0
        self._score = 0
        self._is_over = True
        self._life_lost = False
        self._starts_anew = False
        self._finished: dict[str, float] | None = None
        self._seed = 0
        # Actions since the seed
        self._log = bytearray()
        self._t_start = time.time()
        self._writer: ResultsWriter | None = None
        if monitor_file is not None:
            header: dict[str, float | str] = {"t_start": self._t_start, "env_id": settings.spec.id}
            writer = ResultsWriter(monitor_file, header, override_existing=override_existing)
            self._writer = write_whole_lines(writer)

    def send(self, action: int) -> None:
        """Start an action in the emulator's thread."""
        self._starts_anew = action == _NEW_GAME
        if not self._starts_anew:
            self._log.append(action)
            self._emulator.send(np.array([action]))

    def receive(self) -> Frame:
        """Wait for the frame after the action."""
        if self._starts_anew:
            return self._new_game()
        observations, rewards, terminated, _, infos = self._emulator.recv()
        return Frame(self._image(observations), int(rewards[0]), bool(terminated[0]), _first(infos))

    def start(self, seed: int | None) -> _Hidden:
        """
        Start a new game and play until its first observation.

        :param seed: seed of no-ops and sticky actions, at most 31 bits; ``None`` continues their random numbers
        """
        frame = self._new_game(seed)
        self._begin(frame)
        return self._press_fire(frame)

    def step(self, action: int) -> Moves:
        """Play until the agent's next observation, in this episode or the next."""
        self._finished = None
        frame = yield from self._act(action)
        done = self._is_over or self._life_lost
        frame.info["TimeLimit.truncated"] = self._is_over and not (frame.terminated or self._life_lost)
        first = None
        if done:
            opening = yield from self._next_life(frame)
            first = (yield from self._press_fire(opening)).image
        if self._finished is not None:
            frame.info["episode"] = self._finished
        return Transition(frame.reward, done, frame.image, first, frame.info)

    def restart(self) -> None:
        """Replace the emulator, whatever it is doing. The new one needs a seed."""
        self._emulator = self._new_emulator()

    def save(self) -> dict[str, Any]:
        """The state between two steps."""
        state = {name: getattr(self, name) for name in _STATE}
        return {**state, "seconds": time.time() - self._t_start}

    def replay(self, state: dict[str, Any]) -> Iterator[None]:
        """Restore a state by repeating its actions; others can be repeated in the meantime."""
        self._new_game(state["_seed"])
        for action in state["_log"]:
            if action == _LOGGED_NEW_GAME:
                self._new_game()
                continue
            self.send(action)
            yield
            observations, *_ = self._emulator.recv()
            self.screen = observations[0, 0]
        vars(self).update((name, state[name]) for name in _STATE)
        self._t_start = time.time() - state["seconds"]

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()

    def _new_emulator(self) -> AtariVectorEnv:
        settings = self._settings
        height, width = self._screen_dims or (settings.screen_size, settings.screen_size)
        return AtariVectorEnv(
            settings.game,
            num_envs=1,
            num_threads=1,
            max_num_frames_per_episode=_NO_LIMIT,
            repeat_action_probability=settings.repeat_action_probability,
            full_action_space=settings.full_action_space,
            img_height=height,
            img_width=width,
            grayscale=self._screen_dims is None,
            stack_num=1,
            frameskip=settings.frame_skip,
            noop_max=settings.noop_max,
            reward_clipping=False,
            use_fire_reset=False,
        )

    def _act(self, action: int) -> _Hidden:
        frame = yield action
        self._score += frame.reward
        lives = frame.info["lives"]
        # As in SB3, 0 lives are not a lost life: some games show them for a few frames before they end
        self._life_lost = self._settings.terminal_on_life_loss and 0 < lives < self.lives
        self.lives = lives
        self._is_over = frame.terminated or frame.info["episode_frame_number"] >= self._settings.max_frames
        if self._is_over:
            self._record(frame)
        return frame

    def _next_life(self, frame: Frame) -> _Hidden:
        """SB3's ``EpisodicLifeEnv``: a no-op after a lost life, a new game after the end of one."""
        if not self._is_over:
            frame = yield from self._act(_NOOP)
            if not self._is_over:
                return frame
        # After the end of a game any action starts a new one, in the emulator's thread
        frame = yield _NOOP if frame.terminated and len(self._log) < _LONGEST_REPLAY else _NEW_GAME
        self._begin(frame)
        return frame

    def _press_fire(self, frame: Frame) -> _Hidden:
        """SB3's ``FireResetEnv``, in games with the button."""
        if "FIRE" in self.actions:
            for action in (_FIRE, _AFTER_FIRE):
                frame = yield from self._act(action)
                if self._is_over or self._life_lost:
                    frame = yield from self._next_life(frame)
        return frame

    def _new_game(self, seed: int | None = None) -> Frame:
        if seed is None and len(self._log) >= _LONGEST_REPLAY:
            seed = 1 + int(np.random.SeedSequence(self._seed).generate_state(1)[0]) % (2**31 - 1)
        if seed is None:
            self._log.append(_LOGGED_NEW_GAME)
        else:
            self._seed, self._log = seed, bytearray()
        observations, infos = self._emulator.reset(seed=None if seed is None else np.array([seed]))
        return Frame(self._image(observations), 0, False, _first(infos))

    def _begin(self, frame: Frame) -> None:
        self._score = 0
        self._is_over = False
        self._life_lost = False
        self.lives = frame.info["lives"]

    def _record(self, frame: Frame) -> None:
        length = frame.info["episode_frame_number"]
        episode = {"r": float(self._score), "l": length, "t": round(time.time() - self._t_start, 6)}
        if self._writer is not None:
            self._writer.write_row(episode)
        # A very short game may end during the extra steps after another one, whose result is the one to report
        self._finished = self._finished or episode

    def _image(self, observations: np.ndarray) -> np.ndarray:
        self.screen = observations[0, 0]
        if self._screen_dims is None:
            return self.screen
        size = self._settings.screen_size
        gray = cv2.cvtColor(self.screen, cv2.COLOR_RGB2GRAY)
        return cv2.resize(gray, (size, size), interpolation=cv2.INTER_AREA)


def screen_dims(game: str) -> tuple[int, int]:
    """Height and width of a game's screen."""
    ALEInterface.setLoggerMode(LoggerMode.Error)
    emulator = ALEInterface()
    rom = roms.get_rom_path(game)
    assert rom is not None, game
    emulator.loadROM(rom)
    height, width = emulator.getScreenDims()
    return height, width


def _first(infos: dict[str, np.ndarray]) -> dict[str, Any]:
    return {name: int(infos[name][0]) for name in ("lives", "episode_frame_number", "frame_number")}
