"""Atari games in ale-py's C++ threads, as a drop-in for the stack that RL Zoo builds for its ``atari`` configs.

That stack is ``Monitor``, ``AtariWrapper``, ``DummyVecEnv``, ``VecFrameStack`` and ``VecTransposeImage``. Observations
(with their padding at the start of an episode), rewards, ends of episodes, infos and Monitor's files are the same, bit
for bit from the same state, and a model trained on one plays on the other. What differs:

- Random no-ops at the start of a game: 0 to ``noop_max - 1`` from the C++ generator, while SB3 draws 1 to ``noop_max``.
  So a seed gives other games than the stock stack (with ``noop_max=0`` every second seed gives the same ones).
- Rewards during these no-ops are not seen. Their frames count for Monitor's length and the time limit, as in SB3.
- A time limit ends a game after a whole step. SB3 cuts the step short, up to ``frame_skip - 1`` frames earlier.
- ``reset()`` always starts a new game. SB3's continues a game with lives left.
- A game that ends in the extra steps between two lives is in the info of the step before. SB3 only writes it to
  Monitor's file.
- ``terminal_observation`` at a game over can be a few frames older than SB3's, which is cut short there too.
"""

from __future__ import annotations

import itertools
import os
from collections import deque
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import cv2
import gymnasium as gym
import numpy as np
from gymnasium import spaces
from stable_baselines3.common.atari_wrappers import (
    AtariWrapper,
    ClipRewardEnv,
    EpisodicLifeEnv,
    FireResetEnv,
    MaxAndSkipEnv,
    NoopResetEnv,
    WarpFrame,
)
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import VecEnv
from stable_baselines3.common.vec_env.base_vec_env import VecEnvIndices, VecEnvStepReturn

from sb3_ext.vec_env.atari_config import AtariSettings, native_atari_settings
from sb3_ext.vec_env.atari_game import AtariGame, Frame, screen_dims

__all__ = ["NativeAtariVecEnv", "make_native_atari_env"]


def make_native_atari_env(
    env_id: str,
    n_envs: int = 1,
    seed: int | None = None,
    monitor_dir: str | None = None,
    wrapper_kwargs: Mapping[str, Any] | None = None,
    env_kwargs: Mapping[str, Any] | None = None,
    frame_stack: int | None = 4,
    num_threads: int | None = None,
    exact_pixels: bool = True,
) -> NativeAtariVecEnv:
    """
    The native counterpart of SB3's ``make_atari_env`` with ``VecFrameStack`` around it.

    :param env_id: id of an Atari game, such as ``Pong-v5``
    :param n_envs: number of games
    :param seed: seed of the first game; the others get the following ones
    :param monitor_dir: folder for Monitor's files, if they are wanted
    :param wrapper_kwargs: keyword arguments of ``AtariWrapper``
    :param env_kwargs: keyword arguments of ``gym.make``
    :param frame_stack: number of frames in an observation
    :param num_threads: see :class:`NativeAtariVecEnv`
    :param exact_pixels: see :class:`NativeAtariVecEnv`
    :raises ValueError: if the settings have no native counterpart
    """
    settings = native_atari_settings(env_id, env_kwargs, {AtariWrapper: dict(wrapper_kwargs or {})}, frame_stack)
    if isinstance(settings, str):
        raise ValueError(settings)
    return NativeAtariVecEnv(settings, n_envs, seed, monitor_dir, num_threads, exact_pixels)


class NativeAtariVecEnv(VecEnv):
    """
    :param settings: the game and its preprocessing
    :param n_envs: number of games
    :param seed: seed of the first game; the others get the following ones
    :param monitor_dir: folder for Monitor's files, if they are wanted
    :param num_threads: most games emulated at a time; by default the operating system spreads all of them over the
        cores
    :param exact_pixels: pool frames as RGB and reduce them with OpenCV as SB3 does, for the same pixels. Otherwise the
        C++ threads do it in grey, which relieves the main thread if there are many cores; up to one pixel in 200 then
        differs, by up to 40 of 255 grey levels, where two frames show different colours
        (``scripts/checks/atari_pixels.py``)
    :param override_existing: overwrite Monitor's files, or append to them
    """

    def __init__(
        self,
        settings: AtariSettings,
        n_envs: int = 1,
        seed: int | None = None,
        monitor_dir: str | None = None,
        num_threads: int | None = None,
        exact_pixels: bool = True,
        override_existing: bool = True,
    ) -> None:
        for name, value in (("n_envs", n_envs), ("num_threads", num_threads)):
            if value is not None and value < 1:
                raise ValueError(f"{name}={value} must be at least 1.")
        self.settings = settings
        files = [None if monitor_dir is None else os.path.join(monitor_dir, str(i)) for i in range(n_envs)]
        screen = screen_dims(settings.game) if exact_pixels else None
        self._games = [AtariGame(settings, screen, file, override_existing) for file in files]
        self._n_parallel = num_threads or n_envs
        self._attributes: list[dict[str, Any]] = [{} for _ in range(n_envs)]
        size = settings.screen_size
        # Channels first, as VecTransposeImage leaves them, which SB3 then doesn't add
        observation_space = spaces.Box(0, 255, (settings.frame_stack, size, size), np.uint8)
        self.metadata = {"render_modes": ["human", "rgb_array"]}  # before SB3 asks for the render mode
        super().__init__(n_envs, observation_space, spaces.Discrete(len(self._games[0].actions)))
        self._stack = np.zeros((n_envs, *observation_space.shape), np.uint8)
        # Current moves and their results, by game; actions to send; games whose frame is awaited
        self._moves: list[Generator[int, Frame, Any]] = []
        self._results: list[Any] = []
        self._to_send: deque[tuple[int, int]] = deque()
        self._awaited: deque[int] = deque()
        self._was_interrupted = False
        self.seed(seed)

    def reset(self) -> np.ndarray:
        if self._was_interrupted:
            for game in self._games:
                game.restart()
            self._to_send.clear()
            self._awaited.clear()
            if None in self._seeds:
                self.seed(None)
            self._was_interrupted = False
        self._finish_moves()
        seeds = [None if seed is None else _emulator_seed(seed) for seed in self._seeds]
        self._begin_moves([game.start(seed) for game, seed in zip(self._games, seeds, strict=True)])
        frames = self._finish_moves()
        self._reset_seeds()
        self._reset_options()
        self.reset_infos = [frame.info for frame in frames]
        self._stack = np.zeros_like(self._stack)
        self._stack[:, -1] = [frame.image for frame in frames]
        return self._stack

    def step_async(self, actions: np.ndarray) -> None:
        actions = np.asarray(actions)
        n_actions = len(self._games[0].actions)
        if actions.shape != (self.num_envs,) or not np.all((actions >= 0) & (actions < n_actions)):
            raise ValueError(f"Expected {self.num_envs} actions from 0 to {n_actions - 1}, got {actions!r}.")
        if self._was_interrupted or self._awaited:
            raise RuntimeError("The last step was not finished: call step_wait(), or reset() after an interrupt.")
        self._begin_moves([game.step(int(action)) for game, action in zip(self._games, actions, strict=True)])

    def step_wait(self) -> VecEnvStepReturn:
        transitions = self._finish_moves()
        stack = np.empty_like(self._stack)
        stack[:, :-1] = self._stack[:, 1:]
        stack[:, -1] = [transition.image for transition in transitions]
        for i, transition in enumerate(transitions):
            if transition.done:
                transition.info["terminal_observation"] = stack[i].copy()
                stack[i] = 0
                stack[i, -1] = transition.first_image
        self._stack = stack
        rewards = np.array([transition.reward for transition in transitions], np.float32)
        dones = np.array([transition.done for transition in transitions])
        infos = [transition.info for transition in transitions]
        return stack, np.sign(rewards) if self.settings.clip_reward else rewards, dones, infos

    def close(self) -> None:
        if not self._was_interrupted:
            self._finish_moves()
        for game in self._games:
            game.close()
        # Their threads end with them
        self._games = []

    def get_images(self) -> Sequence[np.ndarray | None]:
        """The screens, each the maximum of its last two frames; enlarged observations without ``exact_pixels``."""
        return [_rgb(game.screen) for game in self._games]

    def get_attr(self, attr_name: str, indices: VecEnvIndices = None) -> list[Any]:
        return [self._attribute(i, attr_name) for i in self._get_indices(indices)]

    def set_attr(self, attr_name: str, value: Any, indices: VecEnvIndices = None) -> None:
        """Stored for ``get_attr``; it changes nothing in a game."""
        for i in self._get_indices(indices):
            self._attributes[i][attr_name] = value

    def env_method(
        self, method_name: str, *method_args: Any, indices: VecEnvIndices = None, **method_kwargs: Any
    ) -> list:
        methods = self.get_attr(method_name, indices)
        return [method(*method_args, **method_kwargs) for method in methods]

    def env_is_wrapped(self, wrapper_class: type[gym.Wrapper], indices: VecEnvIndices = None) -> list[bool]:
        """Whether the stock stack would have the wrapper."""
        settings = self.settings
        wrappers: dict[type[gym.Wrapper], bool] = {
            Monitor: True,
            AtariWrapper: True,
            WarpFrame: True,
            NoopResetEnv: settings.noop_max > 0,
            MaxAndSkipEnv: settings.frame_skip > 1,
            EpisodicLifeEnv: settings.terminal_on_life_loss,
            FireResetEnv: "FIRE" in self._games[0].actions,
            ClipRewardEnv: settings.clip_reward,
        }
        is_wrapped = any(is_used and issubclass(wrapper, wrapper_class) for wrapper, is_used in wrappers.items())
        return [is_wrapped for _ in self._get_indices(indices)]

    def save_env_state(self) -> dict[str, Any]:
        """See :mod:`sb3_ext.vec_env.state`."""
        if self._was_interrupted or self._awaited:
            raise RuntimeError("it was interrupted in a step")
        not_state = dict.fromkeys(("settings", "_n_parallel", "_moves", "_results"))
        return {**not_state, "_games": [game.save() for game in self._games]}

    def load_env_state(self, state: dict[str, Any]) -> None:
        """Repeats up to some ten thousand actions of each game, which can take half a minute."""
        replays = [game.replay(saved) for game, saved in zip(self._games, state["_games"], strict=True)]
        # In turn, so that all emulators work at the same time
        for _ in itertools.zip_longest(*replays):
            pass

    def _attribute(self, index: int, name: str) -> Any:
        game = self._games[index]
        known = {
            "spec": self.settings.spec,
            "render_mode": "rgb_array",
            "metadata": self.metadata,
            "observation_space": self.observation_space,
            "action_space": self.action_space,
            "lives": game.lives,
            "get_action_meanings": lambda: list(game.actions),
            "render": lambda: _rgb(game.screen),
            **self._attributes[index],
        }
        if name not in known:
            raise AttributeError(
                f"A native Atari environment has no attribute {name!r}, only {', '.join(known)}: "
                "its games run in C++ and are not Gymnasium environments."
            )
        return known[name]

    def _begin_moves(self, moves: list[Generator[int, Frame, Any]]) -> None:
        self._moves = moves
        self._results = [None] * len(moves)
        with self._noting_interrupts():
            for i in range(len(moves)):
                self._advance(i, None)
            self._send()

    def _finish_moves(self) -> list[Any]:
        """A game with extra moves between two lives goes on while the others are awaited."""
        with self._noting_interrupts():
            while self._awaited:
                i = self._awaited.popleft()
                self._advance(i, self._games[i].receive())
                self._send()
        return self._results

    def _advance(self, i: int, frame: Frame | None) -> None:
        """Continue a game's moves after a frame, or start them (``send(None)`` starts a generator)."""
        try:
            self._to_send.append((i, self._moves[i].send(frame)))  # type: ignore[arg-type]
        except StopIteration as end:
            self._results[i] = end.value

    def _send(self) -> None:
        while self._to_send and len(self._awaited) < self._n_parallel:
            i, action = self._to_send.popleft()
            self._games[i].send(action)
            self._awaited.append(i)

    @contextmanager
    def _noting_interrupts(self) -> Iterator[None]:
        """After Ctrl-C it is unknown which games still owe a frame, and a stale frame must not pass for a new one."""
        try:
            yield
        # Ctrl-C in the first place
        except BaseException:
            self._was_interrupted = True
            raise


def _emulator_seed(seed: int) -> int:
    """ale-py's C++ side takes 31 bits: those that its ``AtariEnv`` makes of the same seed."""
    return int(np.random.SeedSequence(seed).generate_state(2)[1]) & 0x7FFFFFFF


def _rgb(screen: np.ndarray | None) -> np.ndarray | None:
    if screen is None or screen.ndim == 3:
        return screen
    return cv2.cvtColor(cv2.resize(screen, (160, 210), interpolation=cv2.INTER_NEAREST), cv2.COLOR_GRAY2RGB)
