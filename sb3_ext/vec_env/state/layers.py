"""The state of an object and of those it is wrapped around: an environment with its wrappers, for example.

All of them are pickled at once, so that what they share stays shared. The objects themselves are not pickled: a
reference to one of them becomes a reference to its counterpart in the new process. So do spaces, functions and what is
only needed for rendering. Gymnasium's own way (``EzPickle``) would make a new environment from the constructor's
arguments, without its state.
"""

import functools
import importlib
import io
import pickle
import re
import time
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import gymnasium as gym
from gymnasium.envs.registration import EnvSpec
from gymnasium.utils import EzPickle
from stable_baselines3.common.monitor import Monitor, ResultsWriter
from stable_baselines3.common.vec_env import VecEnv, VecMonitor

from sb3_ext.common.options import Options
from sb3_ext.vec_env.state.ale import restore_ale, save_ale

__all__ = ["HOOK", "CantSave", "find_layers", "load_layers", "save_layers", "signature"]

_Layer = gym.Env | gym.vector.VectorEnv | VecEnv
_LAYERS = (gym.Env, gym.vector.VectorEnv, VecEnv)
#: The attribute with which ``SubprocVecEnv`` reaches these functions
HOOK = "_sb3_ext_state"
#: Attributes that only describe the object
_NOT_STATE = frozenset(
    {"metadata", "_metadata", "render_mode", "class_attributes", HOOK}
    | {"_cached_spec", "_saved_kwargs", "_ezpickle_args", "_ezpickle_kwargs"}
)
#: Lists of all episodes, which grow without end
_MONITOR_LISTS = frozenset({"episode_returns", "episode_lengths", "episode_times"})
_FUNCTIONS = (types.FunctionType, types.BuiltinFunctionType, type)
#: Where in a counterpart's attributes an object is: the layer's number, the attribute's name, keys and indices
_Path = tuple[Any, ...]


class _State(NamedTuple):
    attributes: dict[str, Any]
    #: Names of attributes that are not restored
    left: set[str]
    #: What the method ``save_env_state`` of a class returns
    replaced: dict[str, Any]


class CantSave(Exception):
    """The message says which attribute, and why."""


def find_layers(top: _Layer) -> list[_Layer]:
    """The object, what it is wrapped around, and other environments among their attributes."""
    layers: list[_Layer] = []
    found = [top]
    while found:
        layer = found.pop()
        if any(layer is other for other in layers):
            continue
        layers.append(layer)
        attributes = sorted(vars(layer).items(), reverse=True)
        found += [value for name, value in attributes if isinstance(value, _LAYERS)]
    return layers


def signature(layers: Sequence[_Layer]) -> list[str]:
    """One line per layer. States fit only layers with the same lines."""
    return [f"{_class_name(layer)}{_arguments(layer)}" for layer in layers]


def _class_name(layer: _Layer) -> str:
    # RL Zoo replaces Gymnasium's TimeLimit as soon as it is imported
    kind = next(kind for kind in type(layer).__mro__ if kind.__module__ != "rl_zoo3.gym_patches")
    return f"{kind.__module__}.{kind.__qualname__}"


def _arguments(layer: _Layer) -> str:
    # CartPoleVecEnv has a spec of its own, NativeAtariVecEnv has settings
    names = ("_spec", "settings") if isinstance(layer, VecEnv) else ("_saved_kwargs", "spec")
    arguments = next((value for name in names if (value := vars(layer).get(name))), None)
    if isinstance(arguments, EnvSpec):
        kwargs = {key: value for key, value in arguments.kwargs.items() if key != "render_mode"}
        arguments = {"id": arguments.id, "max_episode_steps": arguments.max_episode_steps, **kwargs}
    return "" if arguments is None else re.sub(r" at 0x[0-9a-f]+", "", f" {arguments}")


def save_layers(layers: Sequence[_Layer], others: Sequence[_Layer] = ()) -> bytes:
    """
    :param layers: objects to save
    :param others: objects that are not saved, but may be referred to
    :raises CantSave: if an attribute can't be pickled and may be needed
    """
    targets = [*layers, *others]
    states = []
    for layer in layers:
        try:
            states.append(_state_of(layer))
        # The method save_env_state may raise anything
        except Exception as error:
            raise CantSave(f"{type(layer).__name__}.save_env_state() fails: {error}") from error
    try:
        return _dumps(targets, [tuple(state) for state in states])
    # Classes of the environment fail in several ways
    except Exception as error:
        raise CantSave(_explain(targets, states, error)) from error


def load_layers(layers: Sequence[_Layer], data: bytes, others: Sequence[_Layer] = ()) -> Callable[[], None]:
    """
    Read the state without changing anything.

    :return: a function that changes the layers
    :raises ValueError: if it can't be read
    """
    unpickler = _Unpickler(io.BytesIO(data), [*layers, *others])
    try:
        states = [_State(*state) for state in unpickler.load()]
    # Classes of the environment may have changed since
    except Exception as error:
        raise ValueError(f"The saved state of {type(layers[0]).__name__} can't be read: {error!r}.") from error

    def apply() -> None:
        for layer, state in zip(layers, states, strict=True):
            _set_state(layer, state)
        for action in unpickler.actions:
            action()
        for layer, state in zip(layers, states, strict=True):
            if state.replaced:
                layer.load_env_state(state.replaced)  # type: ignore[union-attr]

    return apply


def _state_of(layer: _Layer) -> _State:
    save: Callable[..., dict[str, Any]] = getattr(type(layer), "save_env_state", lambda _: {})
    replaced = save(layer)
    left = _names_to_leave(layer) | set(replaced)
    attributes = {name: value for name, value in vars(layer).items() if name not in left}
    for clock in _clocks(layer):
        attributes[clock] = time.time() - attributes[clock]
    return _State(attributes, left, replaced)


def _set_state(layer: _Layer, state: _State) -> None:
    own, left = vars(layer), state.left | _names_to_leave(layer)
    for name in set(own) - left:
        del own[name]
    own.update((name, value) for name, value in state.attributes.items() if name not in left)
    for clock in _clocks(layer):
        own[clock] = time.time() - own[clock]


def _names_to_leave(layer: _Layer) -> set[str]:
    """Attributes that stay what the constructor of the new object made them."""
    of_monitor = _MONITOR_LISTS if isinstance(layer, Monitor) else ()
    return {*_NOT_STATE, *of_monitor, *(name for name, value in vars(layer).items() if _is_process(value))}


def _clocks(layer: _Layer) -> list[str]:
    """Attributes with the time of the start: the time since then goes on, without the pause."""
    if isinstance(layer, (Monitor, VecMonitor)):
        return ["t_start"]
    return ["_t_start"] if type(layer).__name__ == "CartPoleVecEnv" else []


def _is_process(value: Any) -> bool:
    """Whether it belongs to the process: how it was made, open files, and what draws on the screen."""
    if isinstance(value, (list, tuple)):
        return bool(value) and all(map(_is_process, value))
    return _is_process_class(type(value))  # type: ignore[arg-type]


@functools.cache
def _is_process_class(kind: type) -> bool:
    # Some classes of SWIG have no module
    module = getattr(kind, "__module__", "")
    return issubclass(kind, (EnvSpec, Options, ResultsWriter, io.IOBase)) or module.partition(".")[0] == "pygame"


def _dumps(targets: Sequence[_Layer], states: Any) -> bytes:
    file = io.BytesIO()
    _Pickler(file, targets).dump(states)
    return file.getvalue()


def _explain(targets: Sequence[_Layer], states: Sequence[_State], error: Exception) -> str:
    for layer, state in zip(targets, states, strict=False):
        for name, value in {**state.attributes, **state.replaced}.items():
            try:
                _dumps(targets, value)
            # As above
            except Exception as reason:
                module = getattr(type(value), "__module__", "")
                kind = f"{module}.{type(value).__qualname__}".removeprefix("builtins.")
                text = f"{reason}".strip().splitlines()[0] if f"{reason}".strip() else type(reason).__name__
                return f"{type(layer).__name__}.{name} ({kind}) can't be pickled: {text.rstrip('.')}"
    return f"{type(targets[0]).__name__} can't be pickled: {error}"


# Found in pickles; the unpickler has its own versions


def _layer(index: int) -> Any:
    raise NotImplementedError


def _kept(path: _Path) -> Any:
    raise NotImplementedError


def _space(path: _Path, generators: list[Any]) -> Any:
    raise NotImplementedError


def _ale(path: _Path, state: Any) -> Any:
    raise NotImplementedError


class _Pickler(pickle.Pickler):
    def __init__(self, file: Any, targets: Sequence[_Layer]) -> None:
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
        if _is_process(value):
            return self._keep(value)
        if type(value).__name__ == "ALEInterface":
            path = self._must_find(value)
            is_continuous = getattr(self._targets[path[0]], "continuous", False)
            return _ale, (path, save_ale(value, is_continuous))
        if isinstance(value, (*_LAYERS, EzPickle)):
            raise TypeError(f"{type(value).__name__} is an environment inside another object")
        return NotImplemented

    def _reduce_function(self, value: Any) -> Any:
        if value in (_layer, _kept, _space, _ale):
            return NotImplemented
        # Lambdas and what is defined in functions can't be imported
        return self._keep(value) if "<" in value.__qualname__ else NotImplemented

    def _keep(self, value: Any) -> Any:
        return _kept, (self._must_find(value),)

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


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: Any, targets: Sequence[_Layer]) -> None:
        super().__init__(file)
        self._targets = targets
        #: To be called when all attributes are set
        self.actions: list[Callable[[], None]] = []

    def find_class(self, module: str, name: str) -> Any:
        if module == __name__:
            return getattr(self, name)
        return super().find_class(module, name)

    def _layer(self, index: int) -> Any:
        return self._targets[index]

    def _kept(self, path: _Path) -> Any:
        index, name, *keys = path
        value = vars(self._targets[index]).get(name)
        for key in keys:
            value = value[key]  # type: ignore[index]
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
