"""Lets RL Zoo's ``enjoy`` show the environment's own rewards: it adds up what comes out of the wrappers."""

from __future__ import annotations

from stable_baselines3.common.vec_env import VecEnv

__all__ = ["without_shaping"]


def without_shaping(env: VecEnv) -> VecEnv:
    """
    :param env: environments to play in, not to train
    :return: the same, with reward shapers switched off
    """
    if env.has_attr("set_shaping"):
        env.env_method("set_shaping", False)
    return env
