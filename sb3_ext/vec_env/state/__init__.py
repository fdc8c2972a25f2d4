"""Saves the state of environments, so that they continue bit-identically in another process.

``save_envs(env)`` and ``restore_envs(env, states)`` are for a vectorised environment with all its wrappers. They don't
copy the environments: the new process makes the same ones, and gets their state.
"""

from sb3_ext.vec_env.state.vec_envs import EnvStates, restore_envs, restore_statistics, save_envs

__all__ = ["EnvStates", "restore_envs", "restore_statistics", "save_envs"]
