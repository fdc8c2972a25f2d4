"""Stages of a curriculum in an environment: another environment, other arguments, other parameters of wrappers.

RL Zoo puts an environment into Monitor first, then into the wrappers of a config. The environment changes below all of
them, so Monitor's scores belong to the current stage and its file goes on. A stage begins above all of them, so no
wrapper starts an episode in another stage.
"""

import zlib
from collections.abc import Callable, Mapping
from copy import deepcopy
from typing import Any, SupportsFloat

import gymnasium as gym
import numpy as np
from gymnasium.envs.registration import EnvSpec

from sb3_ext.wrappers.base import Recorded, insert_below_monitor, wrappers_of
from sb3_ext.wrappers.curriculum.options import CurriculumOptions, Stage, read_curriculum
from sb3_ext.wrappers.randomization.attribute_path import AttributePath

__all__ = ["STAGE_KEY", "CurriculumEnv", "StageStart", "wrap_in_curriculum"]

#: In ``info`` at the end of an episode: the stage it was played in
STAGE_KEY = "curriculum_stage"
_STREAM = zlib.crc32(b"curriculum")


def wrap_in_curriculum(
    env: gym.Env,
    curriculum: CurriculumOptions | Mapping[str, Any],
    env_wrapper: Callable[[gym.Env], gym.Env] | None = None,
    stage: int = 0,
) -> gym.Env:
    """
    :param env: an environment, with a Monitor or without
    :param curriculum: the stages, parsed or as in a config
    :param env_wrapper: adds other wrappers
    :param stage: the first one
    :return: the environment; its method ``set_stage`` changes the stage
    :raises ValueError: if a stage's environment can't be made or has other spaces
    """
    options = read_curriculum(curriculum)
    key = repr(env.spec)
    env = insert_below_monitor(env, lambda inner: CurriculumEnv(inner, options, stage))
    env = StageStart(env if env_wrapper is None else env_wrapper(env))
    if key not in options._checked:
        # A mistake in the last stage should show at once
        env.curriculum_env.check_stages()
        options._checked.add(key)
    env.curriculum_env.enter_stage()
    return env


class CurriculumEnv(gym.Wrapper, Recorded):
    """
    Plays stages without an environment of their own in the one it wraps, and makes the others when they begin.

    The same seed gives the same episodes, including those of environments that are made later.

    :param env: the environment
    :param curriculum: the stages, parsed or as in a config
    :param stage: the first one
    """

    def __init__(self, env: gym.Env, curriculum: CurriculumOptions | Mapping[str, Any], stage: int = 0) -> None:
        super().__init__(env)
        self._stages = read_curriculum(curriculum).stages
        #: The outermost wrapper, where the search for attributes starts
        self.top: gym.Env = self
        #: Before the first step of an episode, or after its last
        self.idle = True
        self._base: gym.Env | None = None
        self._variant: tuple[EnvSpec | None, dict[str, Any]] = (None, {})
        self._stage: int | None = None
        self._originals: list[tuple[AttributePath, Any]] = []
        self._needs_seed = False
        self._base_had_seed = False
        self._random = np.random.default_rng()
        self.set_stage(stage)

    @property
    def stage(self) -> int:
        """Index of the current stage."""
        return self._wanted if self._stage is None else self._stage

    @property
    def next_options(self) -> Mapping[str, Any]:
        """Options for the next reset."""
        return self._stages[self._wanted].reset_options

    def set_stage(self, stage: int) -> None:
        """Choose the stage that begins with the next reset, by its index."""
        if not 0 <= stage < len(self._stages):
            raise ValueError(f"stage={stage!r}: there are stages 0 to {len(self._stages) - 1}.")
        self._wanted = stage

    def check_stages(self) -> None:
        """Begin every stage once, before the first reset, which raises an error if one can't begin."""
        first = self._wanted
        for stage in range(len(self._stages)):
            self.set_stage(stage)
            self.enter_stage()
        self.set_stage(first)
        self.enter_stage()

    def enter_stage(self) -> None:
        """Begin the stage that was set, unless it is the current one."""
        if self._stage == self._wanted:
            return
        stage = self._stages[self._wanted]
        try:
            self._restore_attributes()
            self._change_env(stage)
            self._set_attributes(stage)
        except (AttributeError, ValueError, TypeError) as error:
            raise ValueError(f"curriculum: stage {self._wanted + 1} ({stage.name!r}): {error}") from error
        self._stage = self._wanted

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        self.enter_stage()
        if seed is not None:
            self._random = np.random.default_rng(np.random.SeedSequence([seed, _STREAM]))
        elif self._needs_seed:
            # It would draw its own seed, since it was made or first used after the environments were seeded
            seed = int(self._random.integers(2**31))
        self._needs_seed = False
        self._base_had_seed |= seed is not None and (self._base is None or self.env is self._base)
        self.idle = True
        return self.env.reset(seed=seed, options=options)

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = self.env.step(action)
        self.idle = bool(terminated or truncated)
        return observation, reward, terminated, truncated, info

    def close(self) -> None:
        super().close()
        if self._base is not None and self._base is not self.env:
            self._base.close()

    def _change_env(self, stage: Stage) -> None:
        variant = (stage.env, stage.env_kwargs)
        if variant == self._variant:
            return
        # Only now, since wrappers may have changed what is below them after the constructor
        base = self.env if self._base is None else self._base
        env = base if stage.is_plain else stage.make_env(base)
        if self.env is not base:
            self.env.close()
        self._base, self.env, self._variant = base, env, variant
        self._needs_seed = env is not base or not self._base_had_seed

    def _restore_attributes(self) -> None:
        while self._originals:
            path, value = self._originals.pop()
            path.write(self.top, value)

    def _set_attributes(self, stage: Stage) -> None:
        for name, value in stage.attributes.items():
            path = AttributePath(name)
            self._originals.append((path, path.read(self.top)))
            path.write(self.top, deepcopy(value))
        for name, value in stage.calls.items():
            method = AttributePath(name).read(self.top)
            if not callable(method):
                raise ValueError(f"calls: {name!r} is not a method but {type(method).__name__}.")
            method(deepcopy(value))


class StageStart(gym.Wrapper, Recorded):
    """
    The outermost wrapper: a stage begins before any other wrapper starts an episode.

    An episode that continues below, as a game does after a lost life, stays in its stage.
    """

    def __init__(self, env: gym.Env) -> None:
        super().__init__(env)
        self.curriculum_env = next(layer for layer in wrappers_of(env) if isinstance(layer, CurriculumEnv))
        self.curriculum_env.top = self

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        if self.curriculum_env.idle:
            self.curriculum_env.enter_stage()
        merged = {**self.curriculum_env.next_options, **(options or {})}
        return self.env.reset(seed=seed, options=merged or None)

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = self.env.step(action)
        # A wrapper between Monitor and the environment may also end an episode
        if self.curriculum_env.idle or "episode" in info:
            self.curriculum_env.idle = True
            info[STAGE_KEY] = self.curriculum_env.stage
        return observation, reward, terminated, truncated, info
