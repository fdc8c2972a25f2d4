"""A vectorised environment on several cores, for environments whose step takes tens of microseconds or more.

The main process steps the first slice of the environments while worker processes step the others. SB3's
``SubprocVecEnv`` starts a process for each environment and sends every observation through a pipe. Here there are as
many processes as cores, and arrays are in shared memory.
"""

import itertools
import multiprocessing
import os
import warnings
import weakref
from collections.abc import Callable, Sequence
from copy import deepcopy
from numbers import Integral
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from stable_baselines3.common.vec_env import VecEnv
from stable_baselines3.common.vec_env.base_vec_env import VecEnvIndices, VecEnvObs, VecEnvStepReturn
from stable_baselines3.common.vec_env.util import dict_to_obs, obs_space_info

from sb3_ext.vec_env.env_slice import ACTIONS, DONES, OBSERVATION, REWARDS, EnvSlice
from sb3_ext.vec_env.shared_arrays import SharedArrays
from sb3_ext.vec_env.worker import RemoteError, Worker, WorkerDied

__all__ = ["MulticoreVecEnv", "usable_cores"]

#: What a ``MulticoreVecEnv`` is doing; any other text says why it can't be used any more
_IDLE, _STEPPING = "idle", "stepping"
_INTERRUPTED = "it was interrupted while its workers were at work"


class MulticoreVecEnv(VecEnv):
    """
    Gives the same trajectories, infos and errors as ``DummyVecEnv``, with the work spread over cores. If other programs
    keep all cores busy, ``DummyVecEnv`` is faster.

    As with ``SubprocVecEnv``, a script needs an ``if __name__ == "__main__":`` block, unless ``start_method="fork"``;
    and what ``get_attr`` or an info returns of a worker's environment is a copy.

    :param env_fns: functions that make the environments
    :param n_workers: number of processes that step them, including the main process; by default the usable cores, but
        at most one per environment
    :param start_method: how worker processes start: "fork", "forkserver" or "spawn"; by default "forkserver" if the
        system has it, else "spawn", for the reasons given at ``SubprocVecEnv``
    """

    def __init__(
        self,
        env_fns: Sequence[Callable[[], gym.Env]],
        n_workers: int | None = None,
        start_method: str | None = None,
    ) -> None:
        if not env_fns:
            raise ValueError("env_fns is empty: MulticoreVecEnv needs at least one function that makes an environment.")
        if n_workers is not None and (n_workers is True or not isinstance(n_workers, Integral) or n_workers < 1):
            raise ValueError(f"n_workers={n_workers!r} must be a whole number of processes, at least 1, or None.")
        n_envs = len(env_fns)
        bounds = _split(n_envs, usable_cores() if n_workers is None else int(n_workers))
        if start_method is None:
            start_method = "forkserver" if "forkserver" in multiprocessing.get_all_start_methods() else "spawn"
        context = multiprocessing.get_context(start_method)

        self._state = _IDLE
        self._death: WorkerDied | None = None
        self._own = EnvSlice(0)
        self._workers: list[Worker] = []
        # Also runs when the object is garbage and when Python exits
        self._close = weakref.finalize(self, _close, os.getpid(), self._own, self._workers)
        try:
            self._own.make(env_fns[: bounds[0]])
            env = self._own.envs[0]
            self._obs_keys, fields = _shared_fields(n_envs, env.observation_space, env.action_space)
            self._arrays = SharedArrays(context, fields)
            self._own.attach(self._arrays, self._obs_keys)
            for first, stop in itertools.pairwise(bounds):
                worker = Worker(context, env_fns[first:stop], first, self._arrays, self._obs_keys, self._workers)
                self._workers.append(worker)
            self._finish(self._workers)
            super().__init__(n_envs, env.observation_space, env.action_space)
        # Ctrl-C too: worker processes must not be left behind
        except BaseException:
            self._close()
            raise
        self.metadata = env.metadata

    def step_async(self, actions: np.ndarray) -> None:
        self._begin(_IDLE)
        self._actions = actions
        shared = self._arrays.get(ACTIONS)
        if shared is not None and _same_kind(actions, shared):
            shared[:] = actions
            for worker in self._workers:
                worker.send_step()
        else:
            for worker in self._workers:
                worker.send_step(actions[worker.rows])
        self._state = _STEPPING

    def step_wait(self) -> VecEnvStepReturn:
        if self._state == _IDLE:
            raise RuntimeError("step_wait() needs a call of step_async() before it.")
        self._begin(_STEPPING)
        infos: list[dict[str, Any]] = [{"TimeLimit.truncated": False} for _ in range(self.num_envs)]
        for process, events in enumerate(self._finish(self._workers, self._own.step, self._actions)):
            for index, info, reset_info in events or ():
                # An environment of the main process may change its info later; those of workers are copies already
                infos[index] = info if process else deepcopy(info)
                if reset_info is not None:
                    self.reset_infos[index] = reset_info
        return self._copy_observations(), self._arrays[REWARDS].copy(), self._arrays[DONES].copy(), infos

    def reset(self) -> VecEnvObs:
        if self._state == _STEPPING:
            self._begin(_STEPPING)
            self._finish(self._workers)
        self._begin(_IDLE)
        for worker in self._workers:
            worker.send("reset", self._seeds[worker.rows], self._options[worker.rows])
        infos = self._finish(self._workers, self._own.reset, self._seeds, self._options)
        self.reset_infos = [info for part in infos for info in part]
        # Seeds and options are only used once
        self._reset_seeds()
        self._reset_options()
        return self._copy_observations()

    def close(self) -> None:
        self._close()
        self._state = "it is closed"

    def get_images(self) -> Sequence[np.ndarray | None]:
        if self.render_mode != "rgb_array":
            warnings.warn(
                f"The render mode is {self.render_mode}, but this method assumes it is `rgb_array` to obtain images.",
                stacklevel=2,
            )
            return [None] * self.num_envs
        return self._call("render", None)

    def has_attr(self, attr_name: str) -> bool:
        return all(self._call("has_attr", None, attr_name))

    def get_attr(self, attr_name: str, indices: VecEnvIndices = None) -> list[Any]:
        return self._call("get_attr", indices, attr_name)

    def set_attr(self, attr_name: str, value: Any, indices: VecEnvIndices = None) -> None:
        self._call("set_attr", indices, attr_name, value)

    def env_method(
        self, method_name: str, *method_args: Any, indices: VecEnvIndices = None, **method_kwargs: Any
    ) -> list[Any]:
        return self._call("env_method", indices, method_name, method_args, method_kwargs)

    def env_is_wrapped(self, wrapper_class: type[gym.Wrapper], indices: VecEnvIndices = None) -> list[bool]:
        return self._call("is_wrapped", indices, wrapper_class)

    def call_with_envs(self, function: Callable[..., Any], *args: Any, indices: VecEnvIndices = None) -> list[Any]:
        """
        Call a function with each environment, in its process.

        :param function: takes an environment, then ``args``; it must be importable
        """
        return self._call(function, indices, *args)

    def _call(self, function: str | Callable[..., Any], indices: VecEnvIndices, *args: Any) -> list[Any]:
        """Call something on some environments; results are in the order of the indices."""
        wanted = [range(self.num_envs)[index] for index in self._get_indices(indices)]
        n_own = len(self._own.envs)
        own_share = [index for index in wanted if index < n_own]
        workers = [worker for worker in self._workers if any(index in worker.indices for index in wanted)]
        self._begin(_IDLE)
        for worker in workers:
            worker.send("call", function, [index for index in wanted if index in worker.indices], *args)
        own_results, *replies = self._finish(workers, self._own.call, function, own_share, *args)
        # Each share is in the order of the indices: take the next result of whoever has the index.
        sources = [(range(n_own), iter(own_results))]
        sources += [(worker.indices, iter(reply)) for worker, reply in zip(workers, replies, strict=True)]
        return [next(results) for index in wanted for indices, results in sources if index in indices]

    def _begin(self, expected: str) -> None:
        """Until ``_finish``, replies are on their way. An interruption leaves it open which of them have come."""
        if self._state == expected:
            self._state = _INTERRUPTED
            return
        if self._state == _STEPPING:
            raise RuntimeError("Call step_wait() first: step_async() has begun a step.")
        kind = RuntimeError if self._death is None else WorkerDied
        raise kind(f"This MulticoreVecEnv can't be used any more: {self._state}. Make a new one.") from self._death

    def _finish(self, workers: Sequence[Worker], own_work: Callable[..., Any] | None = None, *args: Any) -> list[Any]:
        """
        Do the main process's share and wait for the workers': for all of them, whoever fails, so that no reply is left.
        Returns the results, that of the main process first.
        """
        own_result, failure = None, None
        if own_work is not None:
            try:
                own_result = own_work(*args)
            # Raised below, after the workers have replied
            except Exception as error:
                failure = error
                error.add_note(f"Environment {self._own.active}, in the main process")
        try:
            replies = [worker.receive() for worker in workers]
        except WorkerDied as error:
            self._state, self._death = f"{error}".rstrip("."), error
            raise
        self._state = _IDLE
        if failure is not None:
            raise failure
        for reply in replies:
            if isinstance(reply, RemoteError):
                raise reply.as_exception()
        return [own_result, *replies]

    def _copy_observations(self) -> VecEnvObs:
        observations = {key: self._arrays[OBSERVATION, key].copy() for key in self._obs_keys}
        return dict_to_obs(self.observation_space, observations)


def usable_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _split(n_envs: int, n_workers: int) -> list[int]:
    """Where each slice ends. The main process also gathers the results, so it gets no more than the others."""
    n_workers = min(n_envs, n_workers)
    return [n_envs * (worker + 1) // n_workers for worker in range(n_workers)]


def _shared_fields(n_envs: int, observation_space: spaces.Space, action_space: spaces.Space) -> tuple[list[Any], dict]:
    """The keys of the observation's parts, and the shape and type of each shared array."""
    keys, shapes, dtypes = obs_space_info(observation_space)
    fields: dict[Any, Any] = {(OBSERVATION, key): ((n_envs, *shapes[key]), dtypes[key]) for key in keys}
    fields[REWARDS] = ((n_envs,), np.dtype(np.float32))
    fields[DONES] = ((n_envs,), np.dtype(np.bool_))
    if action_space.shape is not None and action_space.dtype is not None:
        fields[ACTIONS] = ((n_envs, *action_space.shape), action_space.dtype)
    return keys, fields


def _same_kind(actions: Any, shared: np.ndarray) -> bool:
    """Whether the shared array holds the actions as they are: environments may depend on an action's type."""
    return isinstance(actions, np.ndarray) and actions.dtype == shared.dtype and actions.shape == shared.shape


def _close(owner: int, own: EnvSlice, workers: list[Worker]) -> None:
    """:param owner: the process that made the environments; a fork of it must leave them alone"""
    if os.getpid() != owner:
        return
    for worker in workers:
        worker.start_closing()
    try:
        own.close()
    finally:
        for worker in workers:
            worker.finish_closing()
