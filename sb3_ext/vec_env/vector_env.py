"""Gymnasium's vector environments behind SB3's ``VecEnv``.

SB3 wants a new episode in the step that ends one, with the last observation in the info. Gymnasium's vector
environments may reset in the same step, or leave it to the caller; both fit. One that resets in the next step would add
a step to each episode whose action has no effect, so it is refused.
"""

import time
from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.wrappers import TimeLimit
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import VecEnv
from stable_baselines3.common.vec_env.base_vec_env import VecEnvIndices, VecEnvObs, VecEnvStepReturn

from sb3_ext.vec_env.monitor_files import monitor_writers

__all__ = ["VectorVecEnv"]

_MODES = (AutoresetMode.SAME_STEP, AutoresetMode.DISABLED)


class VectorVecEnv(VecEnv):
    """
    Equals ``DummyVecEnv`` with ``Monitor``-wrapped copies of the environment: resets, infos of an episode's end, seeds
    and Monitor's files are the same::

        import gymnasium as gym
        from gymnasium.vector import AutoresetMode

        env = gym.make_vec("Acrobot-v1", 8, "async", vector_kwargs={"autoreset_mode": AutoresetMode.SAME_STEP})
        model = PPOExt("MlpPolicy", VectorVecEnv(env))

    :param env: a vector environment that resets in the same step, or not at all (``autoreset_mode`` of its metadata)
    :param monitor_dir: folder for a ``Monitor`` file of each copy
    :param start_index: number of the first copy in the names of these files
    :param override_existing: overwrite these files, or append to them, as in SB3's ``Monitor``
    :param env_id: for these files; ``None``: from the environment's spec
    """

    def __init__(
        self,
        env: VectorEnv,
        monitor_dir: str | None = None,
        start_index: int = 0,
        override_existing: bool = True,
        env_id: str | None = None,
    ) -> None:
        self._env = env
        self._resets_in_step = self._check_mode(env)
        space = env.single_observation_space
        if isinstance(space, (spaces.Dict, spaces.Tuple)):
            raise ValueError(f"Observations of vector environments must be arrays, and these are a {space}.")
        self._env_id = env_id or getattr(getattr(env, "spec", None), "id", None)
        self._t_start = time.time()
        self._writers = monitor_writers(
            env.num_envs, self._env_id, self._t_start, monitor_dir, start_index, override_existing
        )
        self._scores, self._lengths = np.zeros(env.num_envs), np.zeros(env.num_envs, dtype=np.int64)
        self._actions = np.empty(0)
        super().__init__(env.num_envs, space, env.single_action_space)
        self.metadata = env.metadata

    def _check_mode(self, env: VectorEnv) -> bool:
        mode = AutoresetMode(env.metadata.get("autoreset_mode", AutoresetMode.NEXT_STEP))
        if mode not in _MODES:
            raise ValueError(
                f"{env} resets an environment in the step after the end of its episode, which would be a step without "
                "effect in each episode. Make it with autoreset_mode=AutoresetMode.SAME_STEP or DISABLED: with "
                'gym.make_vec(…, "sync", vector_kwargs={"autoreset_mode": AutoresetMode.SAME_STEP}) any one can.'
            )
        return mode is AutoresetMode.SAME_STEP

    def reset(self) -> VecEnvObs:
        options = self._options[0]
        if any(other != options for other in self._options):
            raise ValueError(f"All copies of {self._env} are reset with the same options, not {self._options}.")
        observations = self._reset_all(None if self._seeds[0] is None else list(self._seeds), options or None)
        self._scores[:], self._lengths[:] = 0.0, 0
        self._reset_seeds()
        self._reset_options()
        return np.array(observations)

    def _reset_all(self, seeds: list[Any] | None, options: dict[str, Any] | None) -> np.ndarray:
        observations, infos = self._env.reset(seed=seeds, options=options)  # type: ignore[arg-type]  # takes a list too
        self.reset_infos = self._rows(infos)
        return observations

    def _reset_some(self, ended: np.ndarray) -> np.ndarray:
        """:return: the first observations of new episodes"""
        mask = np.zeros(self.num_envs, dtype=bool)
        mask[ended] = True
        observations, infos = self._env.reset(options={"reset_mask": mask})
        for index, info in zip(ended, np.array(self._rows(infos))[ended], strict=True):
            self.reset_infos[index] = info
        return observations[ended]

    def step_async(self, actions: np.ndarray) -> None:
        self._actions = np.asarray(actions)

    def step_wait(self) -> VecEnvStepReturn:
        observations, rewards, terminated, truncated, found = self._env.step(self._actions)
        dones = terminated | truncated
        self._scores += rewards
        self._lengths += 1
        last: Any = found.pop("final_obs", None)
        final_info = found.pop("final_info", None)
        infos = self._rows(found)
        if np.count_nonzero(dones):
            ended = dones.nonzero()[0]
            if self._resets_in_step:
                for index, info in zip(ended, np.array(self._rows(final_info or {}))[ended], strict=True):
                    self.reset_infos[index], infos[index] = infos[index], info
            else:
                observations = np.array(observations)
                last = {index: observations[index].copy() for index in ended}
                observations[ended] = self._reset_some(ended)
            for index in ended.tolist():
                infos[index]["TimeLimit.truncated"] = bool(truncated[index] and not terminated[index])
                infos[index].update(terminal_observation=last[index], episode=self._end_episode(index))
            self._scores[ended], self._lengths[ended] = 0.0, 0
        return observations, np.asarray(rewards, dtype=np.float32), dones, infos

    def _end_episode(self, index: int) -> dict[str, float]:
        episode = {"r": round(float(self._scores[index]), 6), "l": int(self._lengths[index])}
        episode["t"] = round(time.time() - self._t_start, 6)
        if self._writers:
            self._writers[index].write_row(episode)
        return episode

    def _rows(self, infos: dict[str, Any]) -> list[dict[str, Any]]:
        """A dictionary for each environment, of one of arrays; ``_name`` says which environments have a name."""
        rows: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        for name, values in infos.items():
            if name.startswith("_"):
                continue
            has_it = infos.get(f"_{name}", np.ones(self.num_envs, dtype=bool))
            parts = self._rows(values) if isinstance(values, dict) else values
            for index in has_it.nonzero()[0]:
                rows[index][name] = parts[index]
        return rows

    def close(self) -> None:
        for writer in self._writers:
            writer.close()
        self._env.close()

    def get_images(self) -> Sequence[np.ndarray | None]:
        pictures: Any = self._env.render() if self.render_mode == "rgb_array" else None
        return [None] * self.num_envs if pictures is None else list(pictures)

    def get_attr(self, attr_name: str, indices: VecEnvIndices = None) -> list[Any]:
        own = {"action_space": self.action_space, "observation_space": self.observation_space}
        value = own[attr_name] if attr_name in own else getattr(self._env, attr_name)
        return [value for _ in self._get_indices(indices)]

    def set_attr(self, attr_name: str, value: Any, indices: VecEnvIndices = None) -> None:
        raise AttributeError(f"The copies of {self._env} have no attributes of their own: {attr_name!r} can't be set.")

    def env_method(
        self, method_name: str, *method_args: Any, indices: VecEnvIndices = None, **method_kwargs: Any
    ) -> list[Any]:
        raise AttributeError(
            f"The copies of {self._env} have no methods of their own: {method_name!r} can't be called."
        )

    def env_is_wrapped(self, wrapper_class: type[gym.Wrapper], indices: VecEnvIndices = None) -> list[bool]:
        """True for wrappers whose work is done: episode statistics and the time limit."""
        included = any(issubclass(wrapper, wrapper_class) for wrapper in (Monitor, TimeLimit, gym.wrappers.TimeLimit))
        return [included for _ in self._get_indices(indices)]
