"""An environment that replaces another one: the same with other arguments, or another id with the same spaces."""

from typing import Annotated, Any

import gymnasium as gym
from gymnasium.envs.registration import EnvSpec
from pydantic import Field, PlainValidator

from sb3_ext.common.options import KeyValues, Options

__all__ = ["EnvVariant", "check_same_spaces"]


def _find_spec(raw: Any) -> EnvSpec | None:
    if raw is None or isinstance(raw, EnvSpec):
        return raw
    try:
        # Not in the process that makes it: a new one knows only Gymnasium's own ids
        return gym.spec(raw)
    except (gym.error.Error, AttributeError, TypeError, ImportError) as error:
        raise ValueError(f"is not an id of an environment: {error}") from None


class EnvVariant(Options):
    """
    Arguments are added to those of the replaced environment, unless this one has another id.

    :param env: another id
    :param env_kwargs: arguments for its constructor
    """

    env: Annotated[EnvSpec | None, PlainValidator(_find_spec)] = None
    env_kwargs: KeyValues = Field(default_factory=dict)

    @property
    def is_plain(self) -> bool:
        """Whether it is the replaced environment itself."""
        return self.env is None and not self.env_kwargs

    @property
    def label(self) -> str:
        """Id and arguments as part of a metric's name; empty if it is plain."""
        arguments = [f"{key}={value}" for key, value in self.env_kwargs.items()]
        return ",".join([*([] if self.env is None else [self.env.id]), *arguments])

    def make_env(self, base: gym.Env) -> gym.Env:
        """:raises ValueError: if it can't be made, or has other spaces than the replaced environment"""
        try:
            env = self._make_env(base.spec, base.render_mode)
        # An environment may raise anything
        except Exception as error:
            raise ValueError(f"it can't be made: {error}") from error
        try:
            check_same_spaces(env, base)
        except ValueError:
            env.close()
            raise
        return env

    def _make_env(self, base: EnvSpec | None, render_mode: str | None) -> gym.Env:
        kwargs = dict(self.env_kwargs)
        if self.env is not None and (base is None or self.env.id != base.id):
            if render_mode is not None:
                kwargs.setdefault("render_mode", render_mode)
            return self.env.make(**kwargs)
        if base is None:
            raise ValueError("the environment was not made by gym.make, so it can't be made again with other arguments")
        return base.make(**kwargs)


def check_same_spaces(env: gym.Env, base: gym.Env) -> None:
    """:raises ValueError: if one model can't play both"""
    for name in ("observation_space", "action_space"):
        given, expected = getattr(env, name), getattr(base, name)
        if given != expected:
            raise ValueError(f"its {name} is {given}, but must be {expected}: one model plays in all of them.")
