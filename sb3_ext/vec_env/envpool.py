"""EnvPool's environments, many of which are Gymnasium's in C++, behind SB3's ``VecEnv`` (extra ``envpool``)."""

import warnings
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any

import gymnasium as gym
import numpy as np

from sb3_ext.vec_env.vector_env import VectorVecEnv

__all__ = ["SAME_AS_GYMNASIUM", "EnvPoolVecEnv", "why_not_envpool"]

#: Here, dynamics, rewards and episodes were compared with Gymnasium's (tests/vec_env/test_envpool.py), and EnvPool is
#: faster than anything of ours
SAME_AS_GYMNASIUM = frozenset({"Acrobot-v1", "LunarLander-v3", "LunarLanderContinuous-v3", "Pendulum-v1"})
#: What EnvPool's infos have besides the environment's own
_ADMINISTRATION = ("env_id", "players", "elapsed_step")
#: EnvPool takes seeds below this one
_MOST = 2**31


class EnvPoolVecEnv(VectorVecEnv):
    """
    Equals ``DummyVecEnv`` with ``Monitor``-wrapped environments of Gymnasium, as far as EnvPool's version does. A seed
    gives other episodes than Gymnasium's, and the same ones each time.

    :param env_id: an id that EnvPool and Gymnasium have
    :param n_envs: number of copies
    :param max_episode_steps: time limit; ``None``: that of the id
    :param num_threads: of EnvPool; 0: one for each core
    :param monitor_dir: folder for a ``Monitor`` file of each copy
    :param override_existing: overwrite these files, or append to them
    """

    def __init__(
        self,
        env_id: str,
        n_envs: int,
        max_episode_steps: int | None = None,
        num_threads: int = 0,
        monitor_dir: str | None = None,
        start_index: int = 0,
        override_existing: bool = True,
    ) -> None:
        reason = why_not_envpool(env_id)
        if reason is not None:
            raise ValueError(f"EnvPool can't run {env_id}: {reason}.")
        limit = max_episode_steps or gym.spec(env_id).max_episode_steps
        self._settings: dict[str, Any] = {"num_envs": n_envs, "num_threads": num_threads}
        if limit is not None:
            self._settings["max_episode_steps"] = limit
        self._env_id = env_id
        super().__init__(self._make(None), monitor_dir, start_index, override_existing, env_id)
        single = gym.make(env_id)
        # EnvPool's say less: some have no bounds
        self.observation_space, self.action_space = single.observation_space, single.action_space
        self._spec, self._dtype = single.spec, np.dtype(self._env.single_action_space.dtype)
        single.close()

    def _make(self, seeds: list[int] | None) -> Any:
        import envpool

        seeding = {} if seeds is None else {"env_seed": [seed % _MOST for seed in seeds]}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # its bounds are float64
            return envpool.make_gymnasium(self._env_id, **self._settings, **seeding)

    def _check_mode(self, env: Any) -> bool:
        return False  # it can reset some environments, which Gymnasium's mode for this does not say

    def _reset_all(self, seeds: list[Any] | None, options: dict[str, Any] | None) -> np.ndarray:
        if seeds is not None:
            self._env = self._make(seeds)  # a pool can't be seeded again
        self.reset_infos = [{} for _ in range(self.num_envs)]
        return self._env.reset()[0]

    def _reset_some(self, ended: np.ndarray) -> np.ndarray:
        pool: Any = self._env
        return pool.reset(ended.astype(np.int32))[0]

    def step_async(self, actions: np.ndarray) -> None:
        super().step_async(np.asarray(actions, dtype=self._dtype))

    def _rows(self, infos: Mapping[str, Any]) -> list[dict[str, Any]]:
        return super()._rows({name: value for name, value in infos.items() if name not in _ADMINISTRATION})

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        if attr_name == "spec":
            return [self._spec for _ in self._get_indices(indices)]
        return super().get_attr(attr_name, indices)


def why_not_envpool(env_id: str) -> str | None:
    """:return: why EnvPool can't run it, as the end of a sentence; ``None`` if it can"""
    if find_spec("envpool") is None:
        return "it is not installed (pip install 'sb3-ext[envpool]')"
    import envpool

    if env_id not in gym.registry:
        return "Gymnasium does not have this id"
    if env_id not in envpool.list_all_envs():
        return "it does not have this id"
    return None
