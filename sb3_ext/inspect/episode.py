"""Plays an episode for the page: pictures as they come, then the table of all steps."""

import math
import threading
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
import torch as th
from stable_baselines3.common.vec_env import DummyVecEnv, VecEnv, unwrap_vec_normalize

from sb3_ext.common.usage_error import UsageError
from sb3_ext.inspect.maps import state_map
from sb3_ext.inspect.pictures import heat_map, image_part, observation_picture, picture
from sb3_ext.inspect.saliency import saliency
from sb3_ext.runs.agents.choose import choose_model
from sb3_ext.runs.play.episode_table import MAX_NUMBERS, Episode, EpisodeTable, Step, frozen
from sb3_ext.runs.play.labels import action_labels, observation_labels
from sb3_ext.runs.play.policy_probe import PolicyProbe
from sb3_ext.runs.record import RunRecord
from sb3_ext.zoo.load_run import LoadedRun, check_is_zoo_run, load_as_trained

__all__ = ["Wanted", "episode_messages", "play_for_page"]

#: Steps in a message
_CHUNK = 16
#: Numbers of an observation that are listed one by one, if they have names
_MAX_NAMED = 40
#: torch's random state is one for the process, so only one episode is played at a time
_PLAYING = threading.Lock()


class Wanted(NamedTuple):
    """
    :param model: as :func:`~sb3_ext.runs.agents.choose.choose_model` takes it
    :param saliency: for images, also send what the network looks at
    """

    model: str | None = None
    seed: int = 0
    deterministic: bool = True
    saliency: bool = False
    max_steps: int = 3000


def play_for_page(run: RunRecord, wanted: Wanted) -> Iterator[dict[str, Any]]:
    """
    Messages for the page: one with ``start``, some with ``steps``, one with ``end``.

    :raises UsageError: before the first message, when there is no such model or its environment can't be made
    """
    check_is_zoo_run(run)
    chosen = choose_model(run, wanted.model)
    with _PLAYING:
        loaded, no_pictures = _load(run, chosen, wanted.seed)
        try:
            named = {"run": run.folder.name, "algo": run.algo, "env": run.env_id, "model": chosen.name}
            yield from episode_messages(loaded, wanted, named, no_pictures)
        finally:
            loaded.env.close()


def _load(run: RunRecord, chosen: Any, seed: int) -> tuple[LoadedRun, str | None]:
    try:
        return load_as_trained(run, chosen, seed, "rgb_array"), None
    # Environments raise anything when they can't be rendered, and when they can't be made at all
    except Exception as first:
        try:
            return load_as_trained(run, chosen, seed), f"The environment can't be rendered: {first}"
        except Exception as error:
            reason = str(error) if isinstance(error, UsageError) else f"{type(error).__name__}: {error}"
            raise UsageError(f"{run.env_id} can't be played here: {reason}") from error


def episode_messages(
    loaded: LoadedRun, wanted: Wanted, named: Mapping[str, Any], no_pictures: str | None = None
) -> Iterator[dict[str, Any]]:
    """
    :param named: what the agent is called: ``run``, ``algo``, ``env`` and ``model``
    :param no_pictures: why the environment has none
    """
    model, env = loaded.model, loaded.env
    camera = _Camera(env, no_pictures)
    eyes = _Eyes(model, env, wanted.saliency)
    with frozen(env), th.random.fork_rng(devices=[]):
        env.seed(wanted.seed)
        th.manual_seed(wanted.seed)
        max_numbers = _MAX_NAMED if observation_labels(env) else MAX_NUMBERS
        episode = Episode(PolicyProbe(model, env.num_envs, wanted.deterministic), env, max_numbers)
        playing = iter(episode)
        steps: list[Step] = []
        yield {"start": _facts(loaded, wanted, named), "no_pictures": camera.problem(), "map": state_map(model, env)}
        pictures: list[str | None] = []
        seen: list[dict[str, str]] = []
        while len(steps) < wanted.max_steps and not (steps and steps[-1].is_last):
            pictures.append(camera.picture())
            seen.append(eyes.look(episode.observations))
            steps.append(next(playing))
            if len(pictures) == _CHUNK:
                yield {"steps": len(pictures), "pictures": pictures, "seen": seen}
                pictures, seen = [], []
        table, is_over = episode.table(steps), steps[-1].is_last
    if pictures:
        yield {"steps": len(pictures), "pictures": pictures, "seen": seen}
    last = camera.last() if is_over else None
    yield {"end": _columns(table), "score": table.score, "is_over": is_over, "last_picture": last}


def _facts(loaded: LoadedRun, wanted: Wanted, named: Mapping[str, Any]) -> dict[str, Any]:
    return {
        **named,
        **{"steps": loaded.model.num_timesteps, "seed": wanted.seed, "deterministic": wanted.deterministic},
        "actions": action_labels(loaded.env),
        "is_squashed": bool(getattr(loaded.model.policy, "squash_output", False)),
        "observations": {f"obs_{i}": name for i, name in enumerate(observation_labels(loaded.env))},
    }


def _columns(table: EpisodeTable) -> dict[str, list[Any]]:
    """For JSON, which knows neither NaN nor infinity."""
    return {
        name: [None if isinstance(value, float) and not math.isfinite(value) else value for value in column.tolist()]
        for name, column in table.columns.items()
    }


class _Camera:
    """Pictures of the first environment. Once it fails, there are none, and the reason is kept."""

    def __init__(self, env: VecEnv, problem: str | None) -> None:
        self._problem = problem
        base = env.unwrapped
        self._env: _Screen | None = None
        if problem is None and isinstance(base, DummyVecEnv):
            base.envs[0] = self._env = _Screen(base.envs[0])
        elif problem is None:
            self._problem = f"The environment is in a {type(base).__name__}."

    def problem(self) -> str | None:
        if self._env is not None:
            self.picture()
        return self._problem

    def picture(self) -> str | None:
        return self._encoded(None if self._env is None else self._env.render)

    def last(self) -> str | None:
        """The picture of the end, before the environment was reset."""
        return self._encoded(None if self._env is None else lambda: self._env.last)

    def _encoded(self, render: Any) -> str | None:
        if render is None or self._problem is not None:
            return None
        try:
            pixels = render()
        # The environment's own code may raise anything
        except Exception as error:
            self._problem = f"The environment can't be rendered: {type(error).__name__}: {error}"
            return None
        if not isinstance(pixels, np.ndarray) or pixels.ndim != 3 or pixels.shape[2] != 3:
            self._problem = "The environment's render() returns no picture of height x width x 3."
            return None
        return picture(pixels)


class _Screen(gym.Wrapper):
    """Keeps the picture of the end: a DummyVecEnv resets the environment in the same step."""

    last: Any = None

    def step(self, action: Any) -> Any:
        result = self.env.step(action)
        if result[2] or result[3]:
            try:
                self.last = self.env.render()
            # As above; without it, only the last picture is missing
            except Exception:
                self.last = None
        return result


class _Eyes:
    """What the agent sees, where that is an image."""

    def __init__(self, model: Any, env: VecEnv, wants_saliency: bool) -> None:
        self._model = model
        self._normalize = unwrap_vec_normalize(env)
        self._space: Any = env.observation_space
        self._key = image_part(env.observation_space)
        #: Of the environment itself: a stack of three grey frames has three channels too
        self._is_colour = self._key is not None and 3 in self._part(env.unwrapped.observation_space).shape
        self._wants_saliency = wants_saliency

    def look(self, observations: Any) -> dict[str, str]:
        if self._key is None:
            return {}
        raw = observations if self._normalize is None else self._normalize.get_original_obs()
        image, space = self._part(raw), self._part(self._space)
        if image.dtype != np.uint8:
            image = (255 * np.clip(image, 0, 1)).astype(np.uint8)
        seen = {"observation": observation_picture(image[0], space, self._is_colour)}
        weights = saliency(self._model, observations, self._key) if self._wants_saliency else None
        return seen if weights is None else {**seen, "saliency": heat_map(weights)}

    def _part(self, whole: Any) -> Any:
        return whole[self._key] if self._key else whole
