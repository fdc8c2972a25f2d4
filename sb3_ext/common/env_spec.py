"""The Gymnasium spec of vectorised environments, also of those in other processes, and its reward threshold."""

import contextlib
from weakref import WeakKeyDictionary

from gymnasium.envs.registration import EnvSpec
from stable_baselines3.common.vec_env import SubprocVecEnv, VecEnv

__all__ = ["remember_spec", "reward_threshold", "spec_of"]

_SPECS: WeakKeyDictionary[VecEnv, EnvSpec] = WeakKeyDictionary()


def remember_spec(env: VecEnv, spec: EnvSpec) -> None:
    """Keep the spec of environments in other processes, which can't be asked for it."""
    _SPECS[env.unwrapped] = spec


def spec_of(env: VecEnv) -> EnvSpec | None:
    """:return: the spec of the first environment; ``None`` if it is not known"""
    if isinstance(env.unwrapped, SubprocVecEnv):
        return _SPECS.get(env.unwrapped)  # asking for one that can't be pickled would end the process
    with contextlib.suppress(AttributeError):
        return env.get_attr("spec", indices=0)[0]
    return None


def reward_threshold(env: VecEnv) -> float | None:
    """:return: the mean reward at which Gymnasium counts the environment as solved; ``None`` if it is not known"""
    threshold = getattr(spec_of(env), "reward_threshold", None)
    return None if threshold is None else float(threshold)
