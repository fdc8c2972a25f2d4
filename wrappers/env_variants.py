"""An environment in another one's place: the same with other arguments, or another id with the same spaces."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import gymnasium as gym
from gymnasium.envs.registration import EnvSpec

__all__ = ["EnvVariant", "check_same_spaces", "read_variant"]


@dataclass(frozen=True)
class EnvVariant:
    """
    Arguments go over those of the environment whose place it takes, unless it has another id: then they stand alone.

    :param spec: another environment than the one whose place it takes
    :param env_kwargs: arguments for its constructor
    """

    spec: EnvSpec | None = None
    env_kwargs: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_plain(self) -> bool:
        """Whether it is the environment whose place it takes, unchanged."""
        return self.spec is None and not self.env_kwargs

    @property
    def name(self) -> str:
        """Its id and arguments, in a form that goes into the name of a metric; empty when it is plain."""
        arguments = [f"{key}={value}" for key, value in self.env_kwargs.items()]
        return ",".join([*([] if self.spec is None else [self.spec.id]), *arguments])

    def make(self, base: gym.Env) -> gym.Env:
        """
        :param base: the environment whose place it takes
        :raises ValueError: when it can't be made, or has other spaces
        """
        try:
            env = self._make(base.spec, base.render_mode)
        except Exception as error:
            raise ValueError(f"it can't be made: {error}") from error
        try:
            check_same_spaces(env, base)
        except ValueError:
            env.close()
            raise
        return env

    def _make(self, base: EnvSpec | None, render_mode: str | None) -> gym.Env:
        kwargs = dict(self.env_kwargs)
        if self.spec is not None and (base is None or self.spec.id != base.id):
            if render_mode is not None:
                kwargs.setdefault("render_mode", render_mode)
            return self.spec.make(**kwargs)
        if base is None:
            raise ValueError("the environment was not made by gym.make, so it can't be made again with other arguments")
        return base.make(**kwargs)


def read_variant(where: str, written: Mapping[str, Any]) -> EnvVariant:
    """
    :param where: what has it, for errors
    :param written: ``env`` and ``env_kwargs`` are read, both optional
    :raises ValueError: when there is no such environment
    """
    env_id, env_kwargs = written.get("env"), written.get("env_kwargs")
    if env_kwargs is not None and not isinstance(env_kwargs, Mapping):
        raise ValueError(f"{where}: env_kwargs: {env_kwargs!r} must be keys with values, such as {{gravity: -8}}.")
    spec = None
    if env_id is not None:
        try:
            # Not by the process that makes it: one that was started afresh knows no ids but Gymnasium's own
            spec = gym.spec(env_id)
        except (gym.error.Error, AttributeError, TypeError, ImportError) as error:
            raise ValueError(f"{where}: env: {env_id!r} is not an id of an environment: {error}") from None
    return EnvVariant(spec, dict(env_kwargs or {}))


def check_same_spaces(env: gym.Env, base: gym.Env) -> None:
    """
    :param env: an environment that takes another one's place
    :param base: the other one
    :raises ValueError: when one model can't play both
    """
    for name in ("observation_space", "action_space"):
        given, expected = getattr(env, name), getattr(base, name)
        if given != expected:
            raise ValueError(f"its {name} is {given}, and must be {expected}: one model plays in all of them.")
