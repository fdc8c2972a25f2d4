"""Collects a rollout on the fast path: without tensors, and without bookkeeping at steps that don't need it.

It does what SB3's ``collect_rollouts`` does, in the same order. Callbacks see the same names in their ``locals``.
"""

from typing import Any

import numpy as np
import torch as th
from gymnasium import spaces
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.vec_env import VecEnv

from sb3_ext.fast.policy import FastPolicy
from sb3_ext.fast.rollouts import DeferredValuesBuffer

__all__ = ["collect_rollout"]


def collect_rollout(
    algorithm: Any,
    policy: FastPolicy,
    env: VecEnv,
    callback: BaseCallback,
    buffer: DeferredValuesBuffer,
    n_steps: int,
) -> bool:
    """
    :param algorithm: an on-policy algorithm
    :return: ``False`` if a callback ended the training
    """
    algorithm.policy.set_training_mode(False)
    buffer.reset()
    callback.on_rollout_start()
    space = algorithm.action_space
    bounds = (space.low, space.high) if isinstance(space, spaces.Box) else None
    seen: dict[str, Any] = {"self": algorithm, "env": env, "callback": callback}
    seen.update(rollout_buffer=buffer, n_rollout_steps=n_steps)
    for step in range(n_steps):
        observations = algorithm._last_obs
        actions, values, log_probs = policy.act(observations)
        clipped = actions if bounds is None else np.clip(actions, *bounds)
        new_observations, rewards, dones, infos = env.step(clipped)
        algorithm.num_timesteps += env.num_envs
        seen.update(n_steps=step, obs_tensor=th.from_numpy(observations), actions=actions, clipped_actions=clipped)
        seen.update(values=values, log_probs=log_probs)
        seen.update(new_obs=new_observations, rewards=rewards, dones=dones, infos=infos)
        callback.update_locals(seen)
        if not callback.on_step():
            return False
        if np.count_nonzero(dones) or any("episode" in info for info in infos):
            algorithm._update_info_buffer(infos, dones)
            _bootstrap(policy, rewards, dones, infos, algorithm.gamma)
        buffer.add(observations, actions, rewards, algorithm._last_episode_starts, values, log_probs)
        algorithm._last_obs, algorithm._last_episode_starts = new_observations, dones
    seen.update(n_steps=n_steps, values=policy.predict_values(th.from_numpy(new_observations)))
    buffer.compute_returns_and_advantage(last_values=seen["values"], dones=dones)
    callback.update_locals(seen)
    callback.on_rollout_end()
    return True


def _bootstrap(
    policy: FastPolicy, rewards: np.ndarray, dones: np.ndarray, infos: list[dict[str, Any]], gamma: float
) -> None:
    """Where a time limit ended an episode, add the value of its last state to its last reward."""
    for index in dones.nonzero()[0]:
        info = infos[index]
        if info.get("TimeLimit.truncated", False) and info.get("terminal_observation") is not None:
            last = th.as_tensor(np.asarray(info["terminal_observation"])[None])
            rewards[index] += gamma * policy.predict_values(last).item()
