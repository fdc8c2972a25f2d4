"""Environments like given ones, for an evaluation that was given none: from their spec, with the wrappers that SB3 has.

Wrappers that a spec does not know how to make can't be made again. This is said, and never left out in silence.
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

#: What evaluation must do as training does
_NORMALIZE = ("norm_obs", "clip_obs", "gamma", "epsilon", "norm_obs_keys")
_HELP = (
    "Give Evaluation eval_env=… and, with process=True, make_env=…; or write the options under ext: evaluation: in a "
    "config of RL Zoo, which knows how to make them."
)


@dataclass(frozen=True)
class EnvRecipe:
    """
    Made with :meth:`of`; can be sent to another process, and makes environments when it is called.

    :param spec: of one environment, without Monitor
    :param info_keywords: what Monitor keeps of an episode's last info
    :param layers: classes and keywords of the wrappers around all environments, from the inside out
    :param n_envs: number of environments
    :param seed: of the first one; without it, they would take random numbers of the training
    """

    spec: EnvSpec
    info_keywords: tuple[str, ...]
    layers: tuple[tuple[type[VecEnvWrapper], Mapping[str, Any]], ...]
    n_envs: int = 1
    seed: int | None = None

    @classmethod
    def of(cls, env: VecEnv, n_envs: int = 1, seed: int | None = None) -> EnvRecipe:
        """
        :param env: environments to make some like
        :param n_envs: how many
        :param seed: of the first one
        :raises ValueError: when they can't be made again
        """
        layers = []
        inner = env
        while isinstance(inner, VecEnvWrapper):
            if not isinstance(inner, VecMonitor):  # each environment gets its own
                layers.append(_layer(inner))
            inner = inner.venv
        spec = env.get_attr("spec", 0)[0] if env.has_attr("spec") else None
        if spec is None:
            raise ValueError(f"The environments have no spec to make others for evaluation from. {_HELP}")
        keywords = env.get_attr("info_keywords", 0)[0] if env.has_attr("info_keywords") else ()
        return cls(_without_monitor(spec), tuple(keywords), tuple(reversed(layers)), n_envs, seed)

    def __call__(self) -> VecEnv:
        """:return: new environments"""
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
        """
        :param env: environments that new ones must have the spaces of
        :return: new environments
        :raises ValueError: when they have others
        """
        made = self()
        for name in ("observation_space", "action_space"):
            if getattr(made, name) != getattr(env, name):
                raise ValueError(
                    f"An environment for evaluation was made from the spec of those of training, and has the {name} "
                    f"{getattr(made, name)} in place of {getattr(env, name)}. {_HELP}"
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
    """Monitor doesn't tell a spec how to make it again; ``make_vec_env`` makes one."""
    monitor = f"{Monitor.__module__}:{Monitor.__name__}"
    wrappers = list(spec.additional_wrappers)
    while wrappers and wrappers[-1].entry_point == monitor:
        wrappers.pop()
    for wrapper in wrappers:
        if wrapper.kwargs is None:
            # Also a Monitor that other wrappers are around
            raise ValueError(f"{wrapper.name} does not tell how to make one more for evaluation. {_HELP}")
    return replace(spec, additional_wrappers=tuple(wrappers))


class PlaceholderEnv(gym.Env):
    """Stands in until the environments of training are known, to make others like them."""

    observation_space = action_space = spaces.Discrete(1)
