"""The state of one environment with its wrappers."""

import pickle
from typing import Any, NamedTuple

import gymnasium as gym

from sb3_ext.vec_env.state.layers import CantSave, find_layers, load_layers, save_layers, signature
from sb3_ext.wrappers.curriculum.env import CurriculumEnv

__all__ = ["check_env", "restore_env", "save_env"]


class _EnvState(NamedTuple):
    #: One line per wrapper, the outermost first
    signature: list[str]
    #: Stage of the curriculum, which decides what the environment is
    stage: int | None
    data: bytes


def save_env(env: gym.Env) -> bytes:
    """:raises CantSave: if it has a state that can't be pickled"""
    layers = find_layers(env)
    stages = [layer.stage for layer in layers if isinstance(layer, CurriculumEnv)]
    try:
        data = save_layers(layers)
    except CantSave as error:
        name = env.unwrapped.spec.id if env.unwrapped.spec else type(env.unwrapped).__name__
        raise CantSave(f"The state of {name} can't be saved: {error}.") from error
    return pickle.dumps(_EnvState(signature(layers), stages[0] if stages else None, data), pickle.HIGHEST_PROTOCOL)


def check_env(env: gym.Env, state: bytes) -> None:
    """:raises ValueError: if it is the state of another environment"""
    _load(env, state)


def restore_env(env: gym.Env, state: bytes) -> None:
    _load(env, state)()


def _load(env: gym.Env, state: bytes) -> Any:
    saved = pickle.loads(state)
    for layer in find_layers(env):
        if isinstance(layer, CurriculumEnv) and saved.stage is not None:
            layer.set_stage(saved.stage)
            layer.enter_stage()
    layers = find_layers(env)
    check_signature("environment", saved.signature, signature(layers))
    return load_layers(layers, saved.data)


def check_signature(what: str, saved: list[str], own: list[str]) -> None:
    """:raises ValueError: if they differ"""
    if saved == own:
        return
    for theirs, ours in zip([*reversed(saved), "nothing"], [*reversed(own), "nothing"], strict=False):
        if theirs != ours:
            raise ValueError(f"The saved state is that of another {what}: it has {theirs} where this one has {ours}.")
