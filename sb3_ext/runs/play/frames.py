"""Pictures of an environment, and the video files that they are written to."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, SupportsFloat

import gymnasium as gym
import imageio_ffmpeg
import numpy as np
from stable_baselines3.common.atari_wrappers import MaxAndSkipEnv
from stable_baselines3.common.vec_env import DummyVecEnv, VecEnv

from sb3_ext.wrappers.base import wrappers_of

__all__ = ["CantRender", "Frames", "VideoFile", "filmed", "first_env", "real_time"]

_ATARI_FPS = 60


class CantRender(Exception):
    """Why there can't be a video."""


class VideoFile:
    """
    Writes pictures as H.264 in an MP4 file that all players know. Each picture goes to ffmpeg at once, so that long
    videos take no memory.

    :param fps: pictures per second
    :param options: more options of ffmpeg for the file
    """

    def __init__(self, path: Path, fps: float, options: Sequence[str] = ("-threads", "1")) -> None:
        self._path = path
        self._fps = fps
        self._options = options
        self._shape: tuple[int, ...] = ()
        self._ffmpeg: Generator[None, Any, None] | None = None

    def add(self, picture: np.ndarray) -> None:
        if self._ffmpeg is None:
            self._shape = picture.shape
            self._ffmpeg = imageio_ffmpeg.write_frames(
                str(self._path),
                (picture.shape[1], picture.shape[0]),
                fps=self._fps,
                macro_block_size=2,  # players need it; the default of 16 resizes most pictures
                ffmpeg_log_level="error",
                output_params=["-movflags", "+faststart", *self._options],
            )
            self._ffmpeg.send(None)
        if picture.shape != self._shape:
            raise CantRender(f"render() returned pictures of {self._shape} and {picture.shape}.")
        try:
            self._ffmpeg.send(np.ascontiguousarray(picture, dtype=np.uint8))
        except OSError as error:
            raise CantRender(f"ffmpeg: {error}") from error

    def __enter__(self) -> VideoFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._ffmpeg is not None:
            self._ffmpeg.close()


class Frames(gym.Wrapper):
    """Takes a picture before and after each step. Inside the VecEnv, the last picture is taken before the reset."""

    def __init__(self, env: gym.Env, take: Callable[[Any], None], mode: str) -> None:
        super().__init__(env)
        self._take = take
        self._mode = mode
        self._vec_env: Any = None
        self._is_new = True

    @classmethod
    def of(cls, env: VecEnv, take: Callable[[Any], None], mode: str = "rgb_array") -> Frames:
        """
        A context manager that wraps the first environment of ``env``.

        :param take: called with each picture
        :param mode: the render mode; all but ``rgb_array`` may return anything
        """
        first = first_env(env)
        if first.render_mode != mode:
            raise CantRender(f"its render mode is {first.render_mode!r}; expected {mode!r}.")
        frames = cls(first, take, mode)
        frames._vec_env = env.unwrapped
        frames._vec_env.envs[0] = frames
        return frames

    def reset(self, **kwargs: Any) -> tuple[Any, dict[str, Any]]:
        # Taken at the first step: the reset after the last episode has no picture
        self._is_new = True
        return self.env.reset(**kwargs)

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        if self._is_new:
            self.take_picture()
        self._is_new = False
        result = self.env.step(action)
        self.take_picture()
        return result

    def take_picture(self) -> None:
        try:
            picture = self.env.render()
        # The environment's own code
        except Exception as error:
            raise CantRender(f"{type(error).__name__}: {error}") from error
        is_picture = isinstance(picture, np.ndarray) and picture.ndim == 3 and picture.shape[2] == 3
        if self._mode == "rgb_array" and not is_picture:
            given = getattr(picture, "shape", type(picture).__name__)
            raise CantRender(f"render() returned {given}; expected a picture of height x width x 3.")
        self._take(picture)

    def __exit__(self, *error: Any) -> Literal[False]:
        """Unlike Gymnasium's, leaves the environment open, and takes itself out of it."""
        self._vec_env.envs[0] = self.env
        return False


@contextmanager
def filmed(env: VecEnv, path: Path) -> Iterator[None]:
    """Writes each step of the first environment to a video."""
    with VideoFile(path, real_time(first_env(env))) as video, Frames.of(env, video.add):
        yield


def first_env(env: VecEnv) -> gym.Env:
    base = env.unwrapped
    if not isinstance(base, DummyVecEnv):
        raise CantRender(f"it is in a {type(base).__name__}; expected a DummyVecEnv.")
    return base.envs[0]


def real_time(env: gym.Env) -> float:
    """Steps per second. Atari's emulator has 60 frames per second, of which a step may be several."""
    skip = getattr(env.unwrapped, "_frameskip", None)
    if hasattr(env.unwrapped, "ale") and isinstance(skip, int):
        for layer in wrappers_of(env):
            skip *= layer._skip if isinstance(layer, MaxAndSkipEnv) else 1
        return _ATARI_FPS / skip
    return float(env.metadata.get("render_fps") or 30)
