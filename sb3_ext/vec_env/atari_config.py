"""Decides whether an RL Zoo config for an Atari game can use the native environment, and with which settings."""

import copy
import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
from gymnasium.envs.registration import EnvSpec
from stable_baselines3.common.atari_wrappers import AtariWrapper

import sb3_ext.envs  # noqa: F401  registers Pong-v5 and the others
from sb3_ext.common.arguments import read_whole
from sb3_ext.common.names import nearest

__all__ = ["AtariSettings", "native_atari_settings"]

_WRAPPER_NAME = f"{AtariWrapper.__module__}.{AtariWrapper.__qualname__}"
_WRAPPER_DEFAULTS = {
    name: parameter.default
    for name, parameter in inspect.signature(AtariWrapper).parameters.items()
    if parameter.default is not parameter.empty
}
#: Keywords of ale-py's AtariEnv, and the values with which AtariWrapper gets the frames it needs
_FIXED_KWARGS: dict[str, tuple[Any, ...]] = {
    "frameskip": (1,),
    "obs_type": ("rgb",),
    "render_mode": (None, "rgb_array"),
    "mode": (None,),
    "difficulty": (None,),
    "continuous": (False,),
    "sound_obs": (False,),
}
_USED_KWARGS = ("repeat_action_probability", "full_action_space", "max_num_frames_per_episode")
_NO_LIMIT = 2**30


@dataclass(frozen=True)
class AtariSettings:
    """
    A game and its preprocessing, in the terms of ale-py's ``AtariEnv`` and SB3's ``AtariWrapper``.

    :param spec: with the keywords it is made with
    :param game: ale-py's name, such as ``space_invaders``
    :param max_frames: frames after which a game is truncated
    """

    spec: EnvSpec
    game: str
    repeat_action_probability: float = 0.25
    full_action_space: bool = False
    max_frames: int = 108_000
    noop_max: int = 30
    frame_skip: int = 4
    screen_size: int = 84
    terminal_on_life_loss: bool = True
    clip_reward: bool = True
    frame_stack: int = 4


def native_atari_settings(
    env_id: str,
    env_kwargs: Mapping[str, Any] | None = None,
    env_wrapper: Any = None,
    frame_stack: int | None = None,
    *,
    vec_env_wrapper: Any = None,
    normalize: Any = False,
    monitor_kwargs: Mapping[str, Any] | None = None,
) -> AtariSettings | str:
    """
    The arguments are those of RL Zoo's config, unparsed.

    :param env_wrapper: a name or a class, a dict of one with its keyword arguments, or a list of one of these
    :param normalize: the config's value, or RL Zoo's ``normalize_kwargs``
    :return: the settings of an equal native environment, or a sentence that says why there is none
    """
    try:
        spec = _atari_spec(env_id, env_kwargs or {})
        wrapper_kwargs = _wrapper_kwargs(env_wrapper)
        if vec_env_wrapper:
            raise ValueError(f"vec_env_wrapper={vec_env_wrapper!r} would get stacked frames instead of single ones.")
        if _normalizes_observations(normalize):
            raise ValueError("normalize would get stacked frames instead of single ones: use norm_obs: False.")
        others = {name: value for name, value in (monitor_kwargs or {}).items() if name != "override_existing"}
        if others:
            raise ValueError(f"monitor_kwargs={others!r} are for SB3's Monitor, which is not used.")
        stacked = read_whole("frame_stack", 1 if frame_stack is None else frame_stack)
        return _settings(spec, wrapper_kwargs, stacked)
    except ValueError as reason:
        return str(reason)


def _atari_spec(env_id: str, env_kwargs: Mapping[str, Any]) -> EnvSpec:
    try:
        spec = gym.spec(env_id)
    except (gym.error.Error, ImportError) as error:
        raise ValueError(f"{env_id!r} is not an environment: {error}") from None
    if spec.entry_point != "ale_py.env:AtariEnv":
        raise ValueError(f"{env_id} is not one of ale-py's Atari games: its entry point is {spec.entry_point}.")
    if spec.additional_wrappers:
        names = ", ".join(wrapper.name for wrapper in spec.additional_wrappers)
        raise ValueError(f"{env_id} is registered with wrappers of its own: {names}.")
    for name in env_kwargs:
        if name not in _FIXED_KWARGS and name not in _USED_KWARGS:
            known = [*_FIXED_KWARGS, *_USED_KWARGS]
            raise ValueError(f"env_kwargs has no {name!r}: {nearest(name, known)}")
    spec = copy.copy(spec)  # the registry's own
    spec.kwargs = {**spec.kwargs, **env_kwargs}
    for name, allowed in _FIXED_KWARGS.items():
        value = spec.kwargs.get(name, allowed[0])
        if value not in allowed:
            hint = f": use {spec.name}-v5, or env_kwargs frameskip: 1" if name == "frameskip" else ""
            raise ValueError(f"{env_id} has {name}={value!r}, but the native version needs {allowed[0]!r}{hint}.")
    return spec


def _wrapper_kwargs(env_wrapper: Any) -> dict[str, Any]:
    """AtariWrapper's keyword arguments, defaults included."""
    wrappers = env_wrapper if isinstance(env_wrapper, list) else [env_wrapper]
    wrapper, kwargs = wrappers[0] if len(wrappers) == 1 else None, None
    if isinstance(wrapper, Mapping) and len(wrapper) == 1:
        ((wrapper, kwargs),) = wrapper.items()
    if wrapper != _WRAPPER_NAME and wrapper is not AtariWrapper:
        raise ValueError(f"env_wrapper={env_wrapper!r} is not {_WRAPPER_NAME} alone.")
    for name in kwargs or {}:
        if name not in _WRAPPER_DEFAULTS:
            raise ValueError(f"AtariWrapper has no parameter {name!r}: {nearest(name, _WRAPPER_DEFAULTS)}")
    return {**_WRAPPER_DEFAULTS, **(kwargs or {})}


def _settings(spec: EnvSpec, wrapper_kwargs: dict[str, Any], frame_stack: int) -> AtariSettings:
    # ale-py's AtariEnv has this default
    own_sticky = _probability("repeat_action_probability", spec.kwargs.get("repeat_action_probability", 0.25))
    wrapper_sticky = _probability("action_repeat_probability", wrapper_kwargs["action_repeat_probability"])
    if own_sticky and wrapper_sticky:
        raise ValueError(
            f"{spec.id} has sticky actions (repeat_action_probability={own_sticky}) and AtariWrapper adds its own "
            f"(action_repeat_probability={wrapper_sticky})."
        )
    limits = [spec.kwargs.get("max_num_frames_per_episode"), spec.max_episode_steps]
    return AtariSettings(
        spec=spec,
        game=spec.kwargs["game"],
        repeat_action_probability=own_sticky or wrapper_sticky,
        full_action_space=bool(spec.kwargs.get("full_action_space", False)),
        max_frames=min([read_whole("a time limit", n) for n in limits if n], default=_NO_LIMIT),
        noop_max=read_whole("noop_max", wrapper_kwargs["noop_max"], at_least=0),
        frame_skip=read_whole("frame_skip", wrapper_kwargs["frame_skip"]),
        screen_size=read_whole("screen_size", wrapper_kwargs["screen_size"]),
        terminal_on_life_loss=bool(wrapper_kwargs["terminal_on_life_loss"]),
        clip_reward=bool(wrapper_kwargs["clip_reward"]),
        frame_stack=frame_stack,
    )


def _normalizes_observations(normalize: Any) -> bool:
    if isinstance(normalize, str):
        # RL Zoo evaluates it: "{'norm_obs': False, 'norm_reward': True}" or "dict(norm_obs=False)"
        compact = normalize.replace(" ", "").replace('"', "'")
        return "norm_obs=False" not in compact and "'norm_obs':False" not in compact
    if isinstance(normalize, Mapping):
        return bool(normalize) and bool(normalize.get("norm_obs", True))
    return bool(normalize)


def _probability(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1:
        raise ValueError(f"{name}={value!r} is not a probability below 1.")
    return float(value)
