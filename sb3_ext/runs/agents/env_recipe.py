"""Makes more environments like given ones, from their Gymnasium spec and SB3's vectorised wrappers.

A wrapper that can't be made again raises an error; it is never left out silently.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import gymnasium as gym
from gymnasium import spaces
from gymnasium.envs.registration import EnvSpec
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import (
    DummyVecEnv,
    VecCheckNan,
    VecEnv,
    VecEnvWrapper,
    VecFrameStack,
    VecMonitor,
    VecNormalize,
    VecTransposeImage,
)

__all__ = ["EnvRecipe", "PlaceholderEnv"]

#: Settings that evaluation shares with training
_NORMALIZE = ("norm_obs", "clip_obs", "gamma", "epsilon", "norm_obs_keys")
_HELP = (
    "Pass eval_env=… to Evaluation and, with process=True, make_env=…; or use ext: evaluation: in a config of RL Zoo, "
    "which knows how to make them."
)


@dataclass(frozen=True)
class EnvRecipe:
    """
    Makes environments when it is called, also in another process. Created by :meth:`of`.

    :param layers: classes and keywords of the vectorised wrappers, from the inside out
    :param seed: seed of the first one; without it, they would use random numbers of the training
    """

    spec: EnvSpec
    info_keywords: tuple[str, ...]
    layers: tuple[tuple[type[VecEnvWrapper], Mapping[str, Any]], ...]
    n_envs: int = 1
    seed: int | None = None

    @classmethod
    def of(cls, env: VecEnv, n_envs: int = 1, seed: int | None = None) -> EnvRecipe:
        """:return: a recipe for environments like ``env``; a ``ValueError`` says why there can't be one"""
        layers = []
        inner = env
        while isinstance(inner, VecEnvWrapper):
            if not isinstance(inner, VecMonitor):  # each environment gets its own
                layers.append(_layer(inner))
            inner = inner.venv
        spec = env.get_attr("spec", 0)[0] if env.has_attr("spec") else None
        if spec is None:
            raise ValueError(f"The environments have no spec to make evaluation environments from. {_HELP}")
        keywords = env.get_attr("info_keywords", 0)[0] if env.has_attr("info_keywords") else ()
        return cls(_without_monitor(spec), tuple(keywords), tuple(reversed(layers)), n_envs, seed)

    def __call__(self) -> VecEnv:
        env: VecEnv = make_vec_env(
            gym.make,
            self.n_envs,
            self.seed,
            env_kwargs={"id": self.spec},
            vec_env_cls=DummyVecEnv,
            monitor_kwargs={"info_keywords": self.info_keywords},
        )
        for wrapper, keywords in self.layers:
            env = wrapper(env, **keywords)
        return env

    def make_alike(self, env: VecEnv) -> VecEnv:
        """:return: new environments, checked to have the spaces of ``env``"""
        made = self()
        for name in ("observation_space", "action_space"):
            if getattr(made, name) != getattr(env, name):
                raise ValueError(
                    f"The evaluation environment made from the training environment's spec has the {name} "
                    f"{getattr(made, name)}; expected {getattr(env, name)}. {_HELP}"
                )
        return made


def _layer(wrapper: VecEnvWrapper) -> tuple[type[VecEnvWrapper], dict[str, Any]]:
    if type(wrapper) is VecNormalize:
        keywords = {name: getattr(wrapper, name) for name in _NORMALIZE}
        return VecNormalize, {**keywords, "training": False, "norm_reward": False}
    if type(wrapper) is VecFrameStack:
        return VecFrameStack, {"n_stack": wrapper.stacked_obs.n_stack}
    if type(wrapper) in (VecTransposeImage, VecCheckNan):
        return type(wrapper), {}
    raise ValueError(f"{type(wrapper).__name__} can't be made again for evaluation. {_HELP}")


def _without_monitor(spec: EnvSpec) -> EnvSpec:
    """A spec can't make Monitor again; ``make_vec_env`` does."""
    monitor = f"{Monitor.__module__}:{Monitor.__name__}"
    wrappers = list(spec.additional_wrappers)
    while wrappers and wrappers[-1].entry_point == monitor:
        wrappers.pop()
    for wrapper in wrappers:
        if wrapper.kwargs is None:
            # Including a Monitor inside other wrappers
            raise ValueError(f"The spec can't make {wrapper.name} again for evaluation. {_HELP}")
    return replace(spec, additional_wrappers=tuple(wrappers))


class PlaceholderEnv(gym.Env):
    """Stands in until the training environments are known."""

    observation_space = action_space = spaces.Discrete(1)
