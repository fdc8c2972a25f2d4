"""CartPole-v1 in NumPy: all copies in one array step, behind SB3's ``VecEnv``.

Gymnasium's vectorised CartPole provides the constants, spaces, random numbers and pictures. Its ``step`` is not used:
it resets one step later than SB3 expects, and takes about twice as long.
"""

import time
from collections.abc import Sequence
from copy import deepcopy
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.envs.classic_control.cartpole import CartPoleVectorEnv
from gymnasium.wrappers import TimeLimit
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import VecEnv
from stable_baselines3.common.vec_env.base_vec_env import VecEnvIndices, VecEnvObs, VecEnvStepReturn

from sb3_ext.common.names import check_choice
from sb3_ext.vec_env.monitor_files import monitor_writers

__all__ = ["CartPoleVecEnv"]

_ENV_ID = "CartPole-v1"


class _Constants:
    """Factors of the equations of motion, as arrays: NumPy is twice as fast with them as with Python's numbers."""

    def __init__(self, env: CartPoleVectorEnv) -> None:
        self.forces = np.array([-env.force_mag, env.force_mag])
        self.gravity = np.array(env.gravity)
        self.masspole = np.array(env.masspole)
        self.total_mass = np.array(env.total_mass)
        self.length = np.array(env.length)
        self.polemass_length = np.array(env.polemass_length)
        self.tau = np.array(env.tau)
        self.four_thirds = np.array(4.0 / 3.0)
        #: Of position and angle
        self.limits = np.repeat([[env.x_threshold], [env.theta_threshold_radians]], env.num_envs, axis=1)
        self.max_episode_steps = np.array(env.max_episode_steps, dtype=env.steps.dtype)


class CartPoleVecEnv(VecEnv):
    """
    Equals ``DummyVecEnv`` with ``Monitor``-wrapped copies of CartPole-v1, except that one random generator serves all
    copies (the same seed gives the same episodes, but not those of ``DummyVecEnv``), and that the info of a step within
    an episode is empty.

    :param n_envs: number of copies
    :param max_episode_steps: time limit
    :param sutton_barto_reward: -1 for the fall and 0 for every other step, instead of 1 for every step
    :param render_mode: "rgb_array" or ``None``
    :param monitor_dir: folder for a ``Monitor`` file of each copy
    :param start_index: number of the first copy in the names of these files
    :param override_existing: overwrite these files, or append to them, as in SB3's ``Monitor``
    """

    def __init__(
        self,
        n_envs: int,
        max_episode_steps: int = 500,
        sutton_barto_reward: bool = False,
        render_mode: str | None = None,
        monitor_dir: str | None = None,
        start_index: int = 0,
        override_existing: bool = True,
    ) -> None:
        if n_envs < 1 or max_episode_steps < 1:
            raise ValueError(f"n_envs={n_envs} and max_episode_steps={max_episode_steps} must be at least 1.")
        if render_mode is not None:
            check_choice("render_mode", render_mode, ["rgb_array"])
        self._env = CartPoleVectorEnv(n_envs, max_episode_steps, render_mode, sutton_barto_reward)
        self._constants = _Constants(self._env)
        self._reset_bounds = self._env.low, self._env.high
        self._sutton_barto_reward = sutton_barto_reward
        self._no_fall = np.full(n_envs, 0.0 if sutton_barto_reward else 1.0, dtype=np.float32)
        self._actions = np.zeros(n_envs, dtype=np.int64)
        self._spec = deepcopy(gym.spec(_ENV_ID))
        self._spec.max_episode_steps = max_episode_steps
        self._spec.kwargs.update(sutton_barto_reward=sutton_barto_reward, render_mode=render_mode)
        self._t_start = time.time()
        self._writers = monitor_writers(n_envs, _ENV_ID, self._t_start, monitor_dir, start_index, override_existing)
        super().__init__(n_envs, self._env.single_observation_space, self._env.single_action_space)
        self.metadata = self._env.metadata

    def reset(self) -> VecEnvObs:
        options = self._options[0]
        if any(other != options for other in self._options):
            raise ValueError(f"All copies of CartPoleVecEnv are reset with the same options, not {self._options}.")
        # One generator, so one seed; the others follow from it
        observations, _ = self._env.reset(seed=self._seeds[0], options=options or None)
        # As in DummyVecEnv, options are for this reset and not for those at the end of episodes
        self._env.low, self._env.high = self._reset_bounds
        self.reset_infos = [{} for _ in range(self.num_envs)]
        self._reset_seeds()
        self._reset_options()
        return np.ascontiguousarray(observations)

    def step_async(self, actions: np.ndarray) -> None:
        actions = np.asarray(actions)
        # The bitwise or is 0 or 1 exactly if each action is
        if actions.shape != (self.num_envs,) or not 0 <= np.bitwise_or.reduce(actions) <= 1:
            raise ValueError(f"actions={actions!r} must be {self.num_envs} numbers, each 0 or 1.")
        self._actions = actions

    def step_wait(self) -> VecEnvStepReturn:
        env = self._env
        if env.state is None:
            raise RuntimeError("Call reset() before step().")
        self._move()
        outside = np.abs(env.state[::2]) > self._constants.limits
        terminated = outside[0] | outside[1]
        env.steps += 1
        dones = terminated | (env.steps >= self._constants.max_episode_steps)
        rewards = self._no_fall - terminated if self._sutton_barto_reward else self._no_fall.copy()
        infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        if np.count_nonzero(dones):
            self._end_episodes(np.flatnonzero(dones), terminated, infos)
        return env.state.T.astype(np.float32, order="C"), rewards, dones, infos

    def _move(self) -> None:
        """
        Gymnasium's equations of motion, in place and in Gymnasium's order of operations: a pole is unstable, and
        another order would lead to another episode after some hundred steps.
        """
        state: Any = self._env.state
        c = self._constants
        theta, theta_dot = state[2], state[3]
        cos, sin = np.cos(theta), np.sin(theta)
        temp = (c.forces[self._actions] + c.polemass_length * (theta_dot * theta_dot) * sin) / c.total_mass
        inertia = c.length * (c.four_thirds - c.masspole * (cos * cos) / c.total_mass)
        accelerations = np.empty((2, self.num_envs))
        accelerations[1] = theta_acc = (c.gravity * sin - cos * temp) / inertia
        accelerations[0] = temp - c.polemass_length * theta_acc * cos / c.total_mass
        positions, velocities = state[::2], state[1::2]
        if self._env.kinematics_integrator == "euler":
            positions += c.tau * velocities
            velocities += c.tau * accelerations
        else:
            velocities += c.tau * accelerations
            positions += c.tau * velocities

    def _end_episodes(self, ended: np.ndarray, terminated: np.ndarray, infos: list[dict[str, Any]]) -> None:
        """Write the infos of ended episodes, and reset their copies."""
        env = self._env
        state: Any = env.state
        seconds = round(time.time() - self._t_start, 6)
        terminal_observations = state[:, ended].T.astype(np.float32, order="C")
        for row, index in enumerate(ended.tolist()):
            length, fell = int(env.steps[index]), bool(terminated[index])
            total = -float(fell) if self._sutton_barto_reward else float(length)
            episode = {"r": total, "l": length, "t": seconds}
            infos[index] = {
                "TimeLimit.truncated": not fell,
                "terminal_observation": terminal_observations[row],
                "episode": episode,
            }
            if self._writers:
                self._writers[index].write_row(episode)
            self.reset_infos[index] = {}
        state[:, ended] = env.np_random.uniform(env.low, env.high, (4, len(ended)))
        env.steps[ended] = 0

    def close(self) -> None:
        for writer in self._writers:
            writer.close()
        self._env.close()

    def get_images(self) -> Sequence[np.ndarray | None]:
        if self.render_mode != "rgb_array":
            return [None] * self.num_envs
        return self._env.render()

    def get_attr(self, attr_name: str, indices: VecEnvIndices = None) -> list[Any]:
        wanted = list(self._get_indices(indices))
        if attr_name == "state" and self._env.state is not None:
            return [self._env.state[:, index].copy() for index in wanted]
        own = {"spec": self._spec, "action_space": self.action_space, "observation_space": self.observation_space}
        value = own[attr_name] if attr_name in own else getattr(self._env, attr_name)
        return [value for _ in wanted]

    def set_attr(self, attr_name: str, value: Any, indices: VecEnvIndices = None) -> None:
        """Sets ``state`` of any copy, or a constant that all copies share, such as ``gravity``."""
        wanted = list(self._get_indices(indices))
        if attr_name == "state" and self._env.state is not None:
            self._env.state[:, wanted] = np.asarray(value, dtype=np.float64)[:, None]
        elif set(wanted) != set(range(self.num_envs)):
            raise ValueError(f"The copies of CartPoleVecEnv share {attr_name!r}: it can only be set for all of them.")
        else:
            setattr(self._env, attr_name, value)
            self._constants = _Constants(self._env)

    def env_method(
        self, method_name: str, *method_args: Any, indices: VecEnvIndices = None, **method_kwargs: Any
    ) -> list[Any]:
        if method_name == "render":
            images = self.get_images()
            return [images[index] for index in self._get_indices(indices)]
        raise AttributeError(f"CartPoleVecEnv has no environment objects to call {method_name!r} of.")

    def env_is_wrapped(self, wrapper_class: type[gym.Wrapper], indices: VecEnvIndices = None) -> list[bool]:
        """True for wrappers whose work this class does: episode statistics and the time limit."""
        # RL Zoo may have replaced Gymnasium's class with its own
        done_here = (Monitor, TimeLimit, gym.wrappers.TimeLimit)
        included = any(issubclass(wrapper, wrapper_class) for wrapper in done_here)
        return [included for _ in self._get_indices(indices)]
