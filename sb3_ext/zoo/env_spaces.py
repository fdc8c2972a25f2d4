"""Observation and action spaces of environments in a short notation. Each environment is made in another process.

Making an environment may print, crash the interpreter or wait for a display. In another process that costs only its
line of the list.
"""

import multiprocessing
import os
import re
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from sb3_ext.zoo.env_catalogue import import_packages
from sb3_ext.zoo.upstream import import_environments

__all__ = ["EnvSpaces", "find_spaces", "short"]


class EnvSpaces(NamedTuple):
    observation: str = ""
    action: str = ""
    problem: str = ""


def find_spaces(env_ids: Sequence[str], packages: Sequence[str] = (), seconds: float = 30.0) -> Iterator[EnvSpaces]:
    # A fork has our modules already
    context: Any = multiprocessing.get_context("fork" if "fork" in multiprocessing.get_all_start_methods() else None)
    waiting = list(env_ids)
    while waiting:
        ours, theirs = context.Pipe(duplex=False)
        process = context.Process(target=_make_each, args=(theirs, waiting, packages), daemon=True)
        process.start()
        theirs.close()
        try:
            while waiting:
                try:
                    found = ours.recv() if ours.poll(seconds) else EnvSpaces(problem=f"not made in {seconds:g} s")
                    alive = not found.problem.startswith("not made")
                except EOFError:
                    found, alive = EnvSpaces(problem="the process died while making it"), False
                waiting.pop(0)
                yield found
                if not alive:
                    break
        finally:
            process.kill()
            process.join()
            ours.close()


def _make_each(connection: Connection, env_ids: Sequence[str], packages: Sequence[str]) -> None:
    sys.stdout = sys.stderr = open(os.devnull, "w", encoding="utf-8")
    for stream in (1, 2):  # for libraries that bypass Python
        os.dup2(sys.stdout.fileno(), stream)
    os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
    import_packages(packages)  # where there is no fork
    for env_id in env_ids:
        connection.send(_make(env_id))
    connection.close()


def _make(env_id: str) -> EnvSpaces:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if env_id not in gym.registry:
                import_environments()
            if env_id not in gym.registry:
                return EnvSpaces(problem="not installed: no package here has this id")
            env = gym.make(env_id)
            found = EnvSpaces(short(env.observation_space), short(env.action_space))
            env.close()
            return found
    # An environment may raise anything
    except Exception as error:
        return EnvSpaces(problem=_explain(error))


def _explain(error: Exception) -> str:
    if isinstance(error, ModuleNotFoundError) and error.name:
        return f"not installed: {error.name}"
    text = " ".join(str(error).split())
    package = re.search(r"pip install [`'\"]?([^`'\" ]+)", text)
    if package is not None:
        return f"not installed: {package[1]}"
    if isinstance(error, (ImportError, gym.error.DependencyNotInstalled)):
        return f"not installed: {text}"
    return f"can't be made: {type(error).__name__}: {text}"


def short(space: gym.Space[Any]) -> str:
    """Such as ``Box(4)``, ``Box(210,160,3) uint8``, ``Box(2) [-1, 1]``, ``Discrete(3)``."""
    kinds: dict[type, Callable[[Any], str]] = {
        spaces.Box: _short_box,
        spaces.Discrete: lambda s: f"Discrete({s.n})" + (f" from {s.start}" if s.start else ""),
        spaces.MultiDiscrete: lambda s: f"MultiDiscrete({_short_sizes(s.nvec)})",
        spaces.MultiBinary: lambda s: f"MultiBinary({','.join(map(str, s.shape))})",
        spaces.Dict: lambda s: f"Dict({', '.join(f'{key}: {short(part)}' for key, part in s.items())})",
        spaces.Tuple: lambda s: f"Tuple({', '.join(map(short, s.spaces))})",
    }
    for kind, write in kinds.items():
        if isinstance(space, kind):
            return write(space)
    return type(space).__name__


def _short_box(space: spaces.Box) -> str:
    text = f"Box({','.join(map(str, space.shape))})"
    if not np.issubdtype(space.dtype, np.floating):
        return f"{text} {space.dtype}"
    low, high = space.low, space.high
    if low.size and space.is_bounded() and (low == low.flat[0]).all() and (high == high.flat[0]).all():
        return f"{text} [{low.flat[0]:g}, {high.flat[0]:g}]"
    return text


def _short_sizes(nvec: np.ndarray) -> str:
    sizes = nvec.flatten().tolist()
    return f"{sizes[0]} x {len(sizes)}" if len(sizes) > 4 and len(set(sizes)) == 1 else ",".join(map(str, sizes))
