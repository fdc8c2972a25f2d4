"""Which vectorised environment a training gets: a native one, one process, or one process per core."""

import atexit
import gc
import math
import multiprocessing
import sys
import threading
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
import torch as th
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv, VecEnv

from sb3_ext.common.clean_text import say
from sb3_ext.common.repeated_comparison import wins_clearly
from sb3_ext.vec_env.atari_config import native_atari_settings
from sb3_ext.vec_env.multicore import MulticoreVecEnv, usable_cores

__all__ = ["EnvConfig", "VecEnvChoice", "VecEnvChooser", "choose_processes"]

#: Seconds that ``MulticoreVecEnv`` must be able to save per step of all environments to be tried at all: waking its
#: workers and collecting their results takes about 100 µs
_WORTH_TRYING = 150e-6
#: How much faster it must be then. Comparisons on an idle machine range from 1.04 to 2.4 (LunarLander, 2 cores)
_WORTH_IT = 1.02
#: How long an environment is stepped to time a step, and how long each side of a comparison takes
_PROBE_SECONDS = 0.05
_COMPARISON_SECONDS = 0.02


class VecEnvChoice(NamedTuple):
    """
    :param make: makes it from functions that make environments, as SB3's classes do
    :param stacks_frames: whether observations are stacked already
    """

    make: Callable[..., VecEnv]
    name: str
    stacks_frames: bool = False


class EnvConfig(NamedTuple):
    """What a hyperparameter file and the command line say about an environment, unparsed."""

    env_id: str
    env_kwargs: Mapping[str, Any]
    env_wrapper: Any
    frame_stack: int | None
    vec_env_wrapper: Any
    normalize: Any
    monitor_kwargs: Mapping[str, Any]


def choose_native(config: EnvConfig, monitor_dir: str | None) -> VecEnvChoice | str | None:
    """Its native version; why there is none, if one could be expected; or ``None``."""
    monitor = {"monitor_dir": monitor_dir, **config.monitor_kwargs}  # without anything else in it, if it is native
    if _is_plain_cartpole(config):

        def make_cartpole(env_fns: Sequence[Any], **kwargs: Any) -> VecEnv:
            from sb3_ext.vec_env.cartpole import CartPoleVecEnv

            return CartPoleVecEnv(len(env_fns), **monitor, **config.env_kwargs)

        return VecEnvChoice(make_cartpole, "vectorised CartPole")
    if "ale_py" not in str(gym.spec(config.env_id).entry_point):
        return None
    settings = native_atari_settings(**config._asdict())
    if isinstance(settings, str):
        return settings

    def make_atari(env_fns: Sequence[Any], **kwargs: Any) -> VecEnv:
        from sb3_ext.vec_env.native_atari import NativeAtariVecEnv

        return NativeAtariVecEnv(settings, len(env_fns), **monitor)

    return VecEnvChoice(make_atari, "native Atari", stacks_frames=True)


def _is_plain_cartpole(config: EnvConfig) -> bool:
    known = {"sutton_barto_reward", "max_episode_steps"}
    plain = config.env_id == "CartPole-v1" and set(config.env_kwargs) <= known
    return plain and not config.env_wrapper and set(config.monitor_kwargs) <= {"override_existing"}


def choose_processes(requested: str, n_envs: int, make_env: Callable[[], gym.Env]) -> VecEnvChoice:
    """:param requested: ``auto``, or another value of ``ext: vec_env``"""
    if requested == "dummy":
        return VecEnvChoice(DummyVecEnv, "one process")
    if requested == "subproc":
        return VecEnvChoice(SubprocVecEnv, "a process for each environment")
    n_cores = min(usable_cores(), n_envs)
    if requested == "auto" and not (n_cores > 1 and _cores_are_faster(make_env, n_envs, n_cores)):
        return VecEnvChoice(DummyVecEnv, "one process")
    return VecEnvChoice(_make_multicore, f"{n_cores} processes")


def _make_multicore(env_fns: Sequence[Any], **kwargs: Any) -> VecEnv:
    start_method = _start_method()
    if start_method == "fork":
        # Processes share memory until one writes to it, and the garbage collector writes to every object
        gc.collect()
        gc.freeze()
        atexit.register(gc.unfreeze)  # or libraries report leaks at exit
    return MulticoreVecEnv(env_fns, start_method=start_method, **kwargs)


def _start_method() -> str | None:
    """A fork is instant and shares our memory, but is unsafe with threads, such as those of W&B, or a GPU."""
    can_fork = "fork" in multiprocessing.get_all_start_methods() and sys.platform != "darwin"
    is_alone = threading.active_count() == 1 and not th.cuda.is_initialized()
    return "fork" if can_fork and is_alone else None


def _cores_are_faster(make_env: Callable[[], gym.Env], n_envs: int, n_cores: int) -> bool:
    share = -(-n_envs // n_cores)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the training's own environments warn too
        step = _step_seconds(make_env)
        if step * (n_envs - share) < _WORTH_TRYING:
            return False
        # Only using the other cores shows whether they are free. Slow environments need only a few steps
        times = min(share, math.ceil(_COMPARISON_SECONDS / step))
        make_share: list[Callable[[], gym.Env]] = [lambda: _Repeat(make_env(), times)] * n_cores
        one, several = DummyVecEnv(make_share), _make_multicore(make_share)
        try:
            for env in (one, several):
                env.seed(0)
                env.reset()
            # The time of a step varies, so one comparison says less here than one of gradients
            return wins_clearly(lambda: _vec_step_seconds(one) > _WORTH_IT * _vec_step_seconds(several), 2)
        finally:
            one.close()
            several.close()


class _Repeat(gym.Wrapper):
    """Takes as long as the steps of several environments."""

    def __init__(self, env: gym.Env, times: int) -> None:
        super().__init__(env)
        self._times = times

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        for _ in range(self._times):
            observation, reward, terminated, truncated, info = self.env.step(action)
            if terminated or truncated:
                observation, info = self.env.reset()
        return observation, reward, False, False, info


def _vec_step_seconds(env: VecEnv) -> float:
    actions = np.array([env.action_space.sample() for _ in range(env.num_envs)])
    env.step(actions)  # wakes the processes
    n_steps, start = 0, time.perf_counter()
    while time.perf_counter() < start + _COMPARISON_SECONDS:
        env.step(actions)
        n_steps += 1
    return (time.perf_counter() - start) / n_steps


def _step_seconds(make_env: Callable[[], gym.Env]) -> float:
    """The 25th percentile: slower steps are slow because the machine is busy."""
    env = make_env()
    env.action_space.seed(0)
    env.reset(seed=0)
    times: list[float] = []
    end = time.perf_counter() + _PROBE_SECONDS
    while len(times) < 10 or (time.perf_counter() < end and len(times) < 5000):
        action = env.action_space.sample()
        start = time.perf_counter()
        _, _, terminated, truncated, _ = env.step(action)
        if terminated or truncated:
            env.reset()
        times.append(time.perf_counter() - start)
    env.close()
    return sorted(times)[len(times) // 4]


class VecEnvChooser:
    """Chooses for all environments of a run, and prints its choice once."""

    def __init__(self, native: bool, requested: str, verbose: int) -> None:
        self._native = native
        self._requested = requested
        self._verbose = verbose
        self._processes: VecEnvChoice | None = None
        self._said: set[str] = set()

    def choose(
        self, config: EnvConfig, n_envs: int, make_env: Callable[[], gym.Env], monitor_dir: str | None
    ) -> VecEnvChoice:
        found = choose_native(config, monitor_dir) if self._native else None
        if isinstance(found, VecEnvChoice):
            self._say(f"Environments: {found.name}")
            return found
        if found is not None:
            self._say(f"Not the native version of {config.env_id}: {found}")
        if self._processes is None:
            self._processes = choose_processes(self._requested, n_envs, make_env)
        self._say(f"Environments: in {self._processes.name}")
        return self._processes

    def _say(self, text: str) -> None:
        if text not in self._said:
            say(text, self._verbose)
        self._said.add(text)
