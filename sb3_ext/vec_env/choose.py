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
from sb3_ext.common.usage_error import UsageError
from sb3_ext.vec_env.atari_config import native_atari_settings
from sb3_ext.vec_env.envpool import SAME_AS_GYMNASIUM, EnvPoolVecEnv, why_not_envpool
from sb3_ext.vec_env.multicore import MulticoreVecEnv, usable_cores
from sb3_ext.vec_env.vector_env import VectorVecEnv

__all__ = ["EnvConfig", "VecEnvChoice", "VecEnvChooser", "choose_processes"]

#: Seconds that ``MulticoreVecEnv`` must be able to save per step of all environments to be tried at all: waking its
#: workers and collecting their results takes about 100 µs
_WORTH_TRYING = 150e-6
#: How much faster it must be then. Comparisons on an idle machine range from 1.04 to 2.4 (LunarLander, 2 cores)
_WORTH_IT = 1.02
#: The same for EnvPool, whose episodes are other ones
_WORTH_A_POOL = 1.3
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


def choose_native(config: EnvConfig, monitor_dir: str | None, exact_pixels: bool = True) -> VecEnvChoice | str | None:
    """
    Its native version; why there is none, if one could be expected; or ``None``.

    :param exact_pixels: see :class:`~sb3_ext.vec_env.native_atari.NativeAtariVecEnv`
    """
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

        return NativeAtariVecEnv(settings, len(env_fns), exact_pixels=exact_pixels, **monitor)

    name = "native Atari" if exact_pixels else "native Atari, pooled in grey"
    return VecEnvChoice(make_atari, name, stacks_frames=True)


def _is_plain_cartpole(config: EnvConfig) -> bool:
    return config.env_id == "CartPole-v1" and not _why_not_bare(config, {"sutton_barto_reward", "max_episode_steps"})


def _why_not_bare(config: EnvConfig, known: set[str]) -> str | None:
    """Vectorised environments have no single ones for wrappers, and only some arguments."""
    unknown = set(config.env_kwargs) - known
    if unknown:
        return f"env_kwargs has {', '.join(sorted(unknown))}"
    if config.env_wrapper:
        return "env_wrapper needs single environments"
    more = set(config.monitor_kwargs) - {"override_existing"}
    return f"monitor_kwargs has {', '.join(sorted(more))}" if more else None


def _choose_vectorised(requested: str, config: EnvConfig, monitor_dir: str | None) -> VecEnvChoice:
    """:param requested: ``envpool`` or ``make_vec``"""
    monitor = {"monitor_dir": monitor_dir, **config.monitor_kwargs}
    if requested == "make_vec":
        reason = _why_not_bare(config, set(config.env_kwargs))
        if reason is None and gym.spec(config.env_id).vector_entry_point is None:
            reason = "it is registered without a vector_entry_point"
    else:
        reason = why_not_envpool(config.env_id) or _why_not_bare(config, {"max_episode_steps"})
    if reason is not None:
        raise UsageError(f"ext: vec_env: {requested} is not possible with {config.env_id}: {reason}.")

    def make(env_fns: Sequence[Any], **kwargs: Any) -> VecEnv:
        if requested == "envpool":
            return EnvPoolVecEnv(config.env_id, len(env_fns), **config.env_kwargs, **monitor)
        vector_env = gym.make_vec(config.env_id, len(env_fns), "vector_entry_point", **config.env_kwargs)
        return VectorVecEnv(vector_env, **monitor)

    return VecEnvChoice(make, "EnvPool" if requested == "envpool" else "its own vectorised version")


def _envpool_is_faster(config: EnvConfig, n_envs: int, make_env: Callable[[], gym.Env]) -> bool:
    if config.env_id not in SAME_AS_GYMNASIUM or n_envs == 1:
        return False
    if why_not_envpool(config.env_id) or _why_not_bare(config, {"max_episode_steps"}):
        return False
    single = DummyVecEnv([make_env] * n_envs)
    pool = EnvPoolVecEnv(config.env_id, n_envs, **config.env_kwargs)
    try:
        for env in (single, pool):
            env.reset()
        return wins_clearly(lambda: _vec_step_seconds(single) > _WORTH_A_POOL * _vec_step_seconds(pool), 2)
    finally:
        single.close()
        pool.close()


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

    def __init__(self, native: bool, requested: str, verbose: int, exact_pixels: bool = True) -> None:
        self._native = native
        self._exact_pixels = exact_pixels
        self._requested = requested
        self._verbose = verbose
        self._processes: VecEnvChoice | None = None
        self._said: set[str] = set()

    def choose(
        self, config: EnvConfig, n_envs: int, make_env: Callable[[], gym.Env], monitor_dir: str | None
    ) -> VecEnvChoice:
        found = choose_native(config, monitor_dir, self._exact_pixels) if self._native else None
        if isinstance(found, VecEnvChoice):
            self._say(f"Environments: {found.name}")
            return found
        if found is not None:
            self._say(f"Not the native version of {config.env_id}: {found}")
        is_open = self._requested == "auto" and self._native and self._processes is None
        if is_open and _envpool_is_faster(config, n_envs, make_env):
            self._requested = "envpool"  # for evaluation too: SB3 warns if they are of different kinds
        if self._requested in ("envpool", "make_vec"):
            found = _choose_vectorised(self._requested, config, monitor_dir)
            self._say(f"Environments: {found.name}")
            return found
        if self._processes is None:
            self._processes = choose_processes(self._requested, n_envs, make_env)
        self._say(f"Environments: in {self._processes.name}")
        return self._processes

    def _say(self, text: str) -> None:
        if text not in self._said:
            say(text, self._verbose)
        self._said.add(text)
