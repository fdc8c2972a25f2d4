"""Films agents in 1080p: a title card, episodes with their numbers, and training progress over checkpoints."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch as th
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.vec_env import VecEnv

from sb3_ext.runs.files import atomic_write
from sb3_ext.runs.play.episode_table import Episode, frozen
from sb3_ext.runs.play.frames import Frames, VideoFile, first_env, real_time
from sb3_ext.runs.play.overlay import Cell, Overlay, OverlayStyle
from sb3_ext.runs.play.policy_probe import PolicyProbe

__all__ = ["Agent", "Clip", "Film", "film"]

#: Pictures per second of a file that all players and sites take
_MIN_FPS, _MAX_FPS = 24, 60
#: x264 at a quality without visible losses; colours as players expect them in HD
_HD = ["-crf", "19", "-preset", "veryfast", "-vf", "scale=out_color_matrix=bt709:out_range=tv"]
_HD += [word for what in ("colorspace", "color_primaries", "color_trc") for word in (f"-{what}", "bt709")]
_MAX_ACTION_NUMBERS = 4


class Agent(Protocol):
    """``zoo/load_run.py: LoadedRun`` is one."""

    @property
    def model(self) -> BaseAlgorithm: ...
    @property
    def env(self) -> VecEnv: ...
    @property
    def deterministic(self) -> bool: ...


class Clip(NamedTuple):
    """
    What a film shows of one agent.

    :param load: loads it, with a ``DummyVecEnv`` in the render mode ``rgb_array``
    :param step: timesteps of training
    :param lines: what is said about it
    """

    load: Callable[[], Agent]
    step: int
    lines: tuple[str, ...] = ()


@dataclass(frozen=True)
class Film:
    """
    :param heading: usually the environment
    :param lines: of the title card
    :param highlight: last line of the title card, usually the score
    :param clips: one, or several of one training
    :param is_grid: show all clips at once, instead of one after the other
    :param seconds: length without the title card; several clips share it, one after the other
    :param episodes: most episodes of each clip
    :param seed: of the environments and the actions
    :param fps: steps per second; default: real time
    """

    heading: str
    lines: tuple[str, ...]
    highlight: str
    clips: Sequence[Clip]
    is_grid: bool = False
    seconds: float = 60.0
    episodes: int = 1
    seed: int = 0
    fps: float | None = None
    style: OverlayStyle = field(default_factory=OverlayStyle)

    @property
    def longest(self) -> float:
        """Seconds, if no episode ends before."""
        return self.style.title_seconds + self.seconds


class _Scene(NamedTuple):
    """``row``: of the step that starts at the picture; empty at the end of an episode."""

    picture: np.ndarray
    row: Mapping[str, Any]
    step: int
    score: float
    episode: int


def film(job: Film, path: Path, progress: Callable[[float], None] = lambda seconds: None) -> float:
    """
    Write a film. The file is complete, or there is none.

    :param path: an MP4 file
    :param progress: called with the seconds written so far, which can be up to ``job.longest``
    :return: its length in seconds
    :raises CantRender: when an environment has no pictures
    """
    with atomic_write(path) as unfinished, _opened(job.clips[0]) as agent:
        fps = job.fps or real_time(first_env(agent.env))
        with VideoFile(unfinished, fps, [*_HD, "-r", f"{_file_fps(fps):g}"]) as video:
            for number, picture in enumerate(_Pictures(job, fps, agent), start=1):
                video.add(picture)
                progress(number / fps)
    return number / fps


def _file_fps(fps: float) -> float:
    """Slow ones are multiplied: each picture is shown several times."""
    return min(fps * math.ceil(_MIN_FPS / fps), _MAX_FPS)


@contextmanager
def _opened(clip: Clip) -> Iterator[Agent]:
    agent = clip.load()
    try:
        yield agent
    finally:
        agent.env.close()


class _Pictures:
    """Iterating over it plays the episodes of a film and draws its pictures."""

    def __init__(self, job: Film, fps: float, first: Agent) -> None:
        self._job, self._fps, self._first = job, fps, first
        self._overlay = Overlay(job.style)

    def __iter__(self) -> Iterator[np.ndarray]:
        title = self._overlay.title(self._job.heading, self._job.lines, self._job.highlight)
        for _ in range(round(self._job.style.title_seconds * self._fps)):
            yield title
        if self._job.is_grid:
            yield from self._grid()
        else:
            yield from self._sequence()

    def _sequence(self) -> Iterator[np.ndarray]:
        job, n_clips = self._job, len(self._job.clips)
        length = max(round(job.seconds * self._fps / n_clips), 1)
        for index, clip in enumerate(job.clips):
            share = clip.step / max(job.clips[-1].step, 1) if n_clips > 1 else None
            with ExitStack() as stack:
                agent = self._first if index == 0 else stack.enter_context(_opened(clip))
                scenes = stack.enter_context(closing(_scenes(agent, job.episodes, job.seed)))
                yield from itertools.islice(self._of_clip(scenes, clip, share), length)

    def _of_clip(self, scenes: Iterator[_Scene], clip: Clip, share: float | None) -> Iterator[np.ndarray]:
        style = self._job.style
        for scene in scenes:
            texts: dict[str, str] = {name: _text(scene, name) for name in style.fields}
            picture = self._overlay.frame(scene.picture, (self._job.heading, *clip.lines), texts, share)
            for _ in range(1 if scene.row else max(round(style.hold_seconds * self._fps), 1)):
                yield picture

    def _grid(self) -> Iterator[np.ndarray]:
        job = self._job
        with ExitStack() as stack:
            agents = [self._first, *(stack.enter_context(_opened(clip)) for clip in job.clips[1:])]
            plays = [stack.enter_context(closing(_scenes(agent, job.episodes, job.seed))) for agent in agents]
            shown: list[_Scene | None] = [None] * len(plays)
            for _ in range(max(round(job.seconds * self._fps), 1)):
                newer = [next(play, None) for play in plays]
                if not any(newer):
                    break
                shown = [new or old for new, old in zip(newer, shown, strict=True)]
                cells = [
                    Cell(scene.picture, f"{clip.step:,} steps", f"score {_text(scene, 'score')}", new is None)
                    for clip, scene, new in zip(job.clips, shown, newer, strict=True)
                    if scene is not None
                ]
                picture = self._overlay.grid(cells)
                yield picture
            for _ in range(round(job.style.hold_seconds * self._fps)):
                yield picture


def _scenes(agent: Agent, episodes: int, seed: int) -> Generator[_Scene, None, None]:
    pictures: list[np.ndarray] = []
    with frozen(agent.env), Frames.of(agent.env, pictures.append):
        agent.env.seed(seed)
        th.manual_seed(seed)
        for number in range(1, episodes + 1):
            score, row = 0.0, {}
            actor = PolicyProbe(agent.model, agent.env.num_envs, agent.deterministic)
            for step in Episode(actor, agent.env):
                row = step.row
                # Those before and after the step; a lost life in Atari has one more
                del pictures[:-2]
                yield _Scene(pictures.pop(0), row, row["step"], score, number)
                score += row["reward"]
            yield _Scene(pictures.pop(), {}, row["step"] + 1, score, number)


def _text(scene: _Scene, name: str) -> str:
    """What is shown for a field of the style."""
    row = scene.row
    if name == "score":
        return _short(scene.score)
    if name in ("step", "episode"):
        return f"{getattr(scene, name):,}"
    if name == "action":
        return _action(row)
    if name == "probability":
        value = row.get(f"prob_{row.get('action')}", math.nan)
    else:
        value = row.get(name, math.nan)
    return "-" if not math.isfinite(value) else _short(value) if name == "reward" else f"{value:,.2f}"


def _action(row: Mapping[str, Any]) -> str:
    if not row:
        return "-"
    if "action_label" in row:
        return str(row["action_label"])
    if "action" in row:
        return str(row["action"])
    names = itertools.takewhile(row.__contains__, (f"action_{index}" for index in itertools.count()))
    numbers = [f"{row[name]:+.2f}" if isinstance(row[name], float) else str(row[name]) for name in names]
    return " ".join(numbers[:_MAX_ACTION_NUMBERS]) + " …" * (len(numbers) > _MAX_ACTION_NUMBERS)


def _short(value: float) -> str:
    value += 0.0  # never -0
    return f"{value:,.0f}" if value == round(value) else f"{value:,.1f}"
