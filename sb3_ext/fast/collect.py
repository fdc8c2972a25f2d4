"""Collects a rollout on the fast path: without tensors, and without bookkeeping at steps that don't need it.

It does what SB3's ``collect_rollouts`` does, in the same order. Callbacks see the same names in their ``locals``.
"""

from typing import Any

import numpy as np
import torch as th
from gymnasium import spaces
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.vec_env import VecEnv

from sb3_ext.common.step_callbacks import StepCallbacks
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
    if algorithm.use_sde:
        algorithm.policy.reset_noise(env.num_envs)
    callback.on_rollout_start()
    steps = StepCallbacks(callback)
    seen = steps.locals
    seen.update(self=algorithm, env=env, callback=callback, rollout_buffer=buffer, n_rollout_steps=n_steps)
    try:
        if not _collect(algorithm, policy, env, steps, buffer, n_steps):
            return False
    finally:
        steps.finish()
    last_values = policy.predict_values(th.from_numpy(algorithm._last_obs))
    buffer.compute_returns_and_advantage(last_values=last_values, dones=algorithm._last_episode_starts)
    seen.update(n_steps=n_steps, values=last_values)
    callback.update_locals(seen)
    callback.on_rollout_end()
    return True


def _collect(
    algorithm: Any, policy: FastPolicy, env: VecEnv, steps: StepCallbacks, buffer: DeferredValuesBuffer, n_steps: int
) -> bool:
    space, n_envs, seen = algorithm.action_space, env.num_envs, steps.locals
    bounds = (space.low, space.high) if isinstance(space, spaces.Box) else None
    for step in range(n_steps):
        if algorithm.use_sde and algorithm.sde_sample_freq > 0 and step % algorithm.sde_sample_freq == 0:
            algorithm.policy.reset_noise(n_envs)
        observations = algorithm._last_obs
        actions, values, log_probs = policy.act(observations)
        clipped = actions if bounds is None else np.clip(actions, *bounds)
        new_observations, rewards, dones, infos = env.step(clipped)
        algorithm.num_timesteps += n_envs
        seen["n_steps"], seen["obs_tensor"] = step, th.from_numpy(observations)
        seen["actions"], seen["clipped_actions"], seen["values"], seen["log_probs"] = (
            actions,
            clipped,
            values,
            log_probs,
        )
        seen["new_obs"], seen["rewards"], seen["dones"], seen["infos"] = new_observations, rewards, dones, infos
        if not steps.on_step():
            return False
        if np.count_nonzero(dones) or any("episode" in info for info in infos):
            algorithm._update_info_buffer(infos, dones)
            _bootstrap(policy, rewards, dones, infos, algorithm.gamma)
        buffer.add(observations, actions, rewards, algorithm._last_episode_starts, values, log_probs)
        algorithm._last_obs, algorithm._last_episode_starts = new_observations, dones
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
