"""Worker processes of SB3's ``SubprocVecEnv`` that died: SB3 raises an ``EOFError``, and may wait for ever to close."""

from functools import partial
from multiprocessing.connection import wait
from typing import Any

from stable_baselines3.common.vec_env import SubprocVecEnv, VecEnv

from sb3_ext.vec_env.worker import WorkerDied, describe_death

__all__ = ["closing_safely", "dead_worker"]

#: Seconds in which the end of a process is noticed
_TIMEOUT = 0.5


def closing_safely(env: VecEnv) -> VecEnv:
    """The same environments. If they are closed in the middle of a step and a worker has died, the others are ended."""
    base = env.unwrapped
    if type(base) is SubprocVecEnv:
        base.close = partial(_close, base)  # type: ignore[method-assign]
    return env


def dead_worker(env: VecEnv | None) -> WorkerDied | None:
    """:return: which worker ended by itself"""
    base: Any = None if env is None else env.unwrapped
    if type(base) is not SubprocVecEnv:
        return None
    if "death" not in vars(base):
        wait([process.sentinel for process in base.processes], _TIMEOUT)
        dead = [(index, process) for index, process in enumerate(base.processes) if process.exitcode]
        base.death = describe_death(dead[0][1], f"environment {dead[0][0]}") if dead else None  # type: ignore[attr-defined]
    return base.death  # type: ignore[attr-defined]


def _close(env: SubprocVecEnv) -> None:
    if env.closed or not env.waiting:
        SubprocVecEnv.close(env)
        return
    # SB3 would wait for replies to the step, of which some may have come
    dead_worker(env)
    for process in env.processes:
        process.terminate()
    for process in env.processes:
        process.join()
    env.closed = True
