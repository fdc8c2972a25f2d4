"""Pickles the attributes of objects, but not the objects themselves.

All are in one pickle, so that what they share stays shared. A reference to one of the objects becomes a reference to
its counterpart in the new process. So do spaces, functions and what is only needed for rendering. Gymnasium's own way
(``EzPickle``) would make a new environment from the constructor's arguments, without its state.
"""

import functools
import importlib
import io
import pickle
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import gymnasium as gym
from gymnasium.envs.registration import EnvSpec
from gymnasium.utils import EzPickle
from stable_baselines3.common.monitor import ResultsWriter
from stable_baselines3.common.vec_env import VecEnv

from sb3_ext.common.options import Options
from sb3_ext.vec_env.state.ale import restore_ale, save_ale

__all__ = ["LAYERS", "Layer", "StateUnpickler", "belongs_to_process", "dump_state"]

Layer = gym.Env | gym.vector.VectorEnv | VecEnv
LAYERS = (gym.Env, gym.vector.VectorEnv, VecEnv)
_FUNCTIONS = (types.FunctionType, types.BuiltinFunctionType, type)
#: Where in a counterpart's attributes an object is: the layer's number, the attribute's name, keys and indices
_Path = tuple[Any, ...]


def dump_state(targets: Sequence[Layer], state: Any) -> bytes:
    """
    :param targets: objects that are not pickled, but may be referred to
    :param state: what to pickle
    """
    file = io.BytesIO()
    _Pickler(file, targets).dump(state)
    return file.getvalue()


def belongs_to_process(value: Any) -> bool:
    """Whether it belongs to the process: how it was made, open files, and what draws on the screen."""
    if isinstance(value, (list, tuple)):
        return bool(value) and all(map(belongs_to_process, value))
    return _is_process_class(type(value))  # type: ignore[arg-type]


@functools.cache
def _is_process_class(kind: type) -> bool:
    # Some classes of SWIG have no module
    module = getattr(kind, "__module__", "")
    return issubclass(kind, (EnvSpec, Options, ResultsWriter, io.IOBase)) or module.partition(".")[0] == "pygame"


# Found in pickles; the unpickler has its own versions


def _layer(index: int) -> Any:
    raise NotImplementedError


def _kept(path: _Path, is_needed: bool = True) -> Any:
    raise NotImplementedError


def _space(path: _Path, generators: list[Any]) -> Any:
    raise NotImplementedError


def _ale(path: _Path, state: Any) -> Any:
    raise NotImplementedError


class _Pickler(pickle.Pickler):
    def __init__(self, file: Any, targets: Sequence[Layer]) -> None:
        super().__init__(file, pickle.HIGHEST_PROTOCOL)
        self._targets = targets
        self._indices = {id(layer): index for index, layer in enumerate(targets)}
        self._paths: dict[int, _Path] = {}
        for index, layer in enumerate(targets):
            self._paths.update((id(value), (index, name)) for name, value in vars(layer).items())
        self._searched = False

    def reducer_override(self, value: Any) -> Any:
        """Asked about everything except numbers, texts and containers."""
        index = self._indices.get(id(value))
        if index is not None:
            return _layer, (index,)
        if isinstance(value, _FUNCTIONS):
            return self._reduce_function(value)
        if isinstance(value, types.ModuleType):
            return importlib.import_module, (value.__name__,)
        if isinstance(value, gym.Space):
            path = self._find(value)
            if path is None:  # inside another object; a copy does as well
                return NotImplemented
            return _space, (path, [part._np_random for part in _space_parts(value)])
        if belongs_to_process(value):
            return self._keep(value)
        if type(value).__name__ == "ALEInterface":
            path = self._must_find(value)
            is_continuous = getattr(self._targets[path[0]], "continuous", False)
            return _ale, (path, save_ale(value, is_continuous))
        if isinstance(value, (*LAYERS, EzPickle)):
            raise TypeError(f"{type(value).__name__} is an environment inside another object")
        return NotImplemented

    def _reduce_function(self, value: Any) -> Any:
        if value in (_layer, _kept, _space, _ale):
            return NotImplemented
        # Lambdas and what is defined in functions can't be imported
        return self._keep(value) if "<" in value.__qualname__ else NotImplemented

    def _keep(self, value: Any) -> Any:
        return _kept, (self._must_find(value), not belongs_to_process(value))

    def _must_find(self, value: Any) -> _Path:
        path = self._find(value)
        if path is None:
            raise TypeError(f"{value!r} is inside another object")
        return path

    def _find(self, value: Any) -> _Path | None:
        if id(value) not in self._paths and not self._searched:
            self._searched = True
            for index, layer in enumerate(self._targets):
                for name, attribute in vars(layer).items():
                    self._paths.update((id(inner), path) for inner, path in _walk(attribute, (index, name)))
        return self._paths.get(id(value))


class StateUnpickler(pickle.Unpickler):
    """:param targets: the counterparts of those given to :func:`dump_state`"""

    def __init__(self, data: bytes, targets: Sequence[Layer]) -> None:
        super().__init__(io.BytesIO(data))
        self._targets = targets
        #: To be called when all attributes are set
        self.actions: list[Callable[[], None]] = []

    def find_class(self, module: str, name: str) -> Any:
        if module == __name__:
            return getattr(self, name)
        return super().find_class(module, name)

    def _layer(self, index: int) -> Any:
        return self._targets[index]

    def _kept(self, path: _Path, is_needed: bool = True) -> Any:
        index, *keys = path
        value: Any = vars(self._targets[index])
        try:
            for key in keys:
                value = value[key]
        except (KeyError, IndexError, TypeError):
            if is_needed:
                raise
            return None
        return value

    def _space(self, path: _Path, generators: list[Any]) -> Any:
        space = self._kept(path)
        for part, generator in zip(_space_parts(space), generators, strict=True):
            self.actions.append(lambda part=part, generator=generator: setattr(part, "_np_random", generator))  # type: ignore[misc]
        return space

    def _ale(self, path: _Path, state: Any) -> Any:
        ale = self._kept(path)
        self.actions.append(lambda: restore_ale(ale, state))
        return ale


def _walk(value: Any, path: _Path) -> Iterator[tuple[Any, _Path]]:
    """What is inside containers."""
    if isinstance(value, dict):
        entries: Any = value.items()
    elif isinstance(value, (list, tuple)):
        entries = enumerate(value)
    else:
        return
    for key, inner in entries:
        yield inner, (*path, key)
        yield from _walk(inner, (*path, key))


def _space_parts(space: gym.Space) -> list[gym.Space]:
    parts = [space]
    for value in vars(space).values():
        inner = value.values() if isinstance(value, Mapping) else value if isinstance(value, (list, tuple)) else [value]
        for part in inner:
            if isinstance(part, gym.Space):
                parts += _space_parts(part)
    return parts
