"""The state of an object and of those it is wrapped around: an environment with its wrappers, for example."""

import re
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from gymnasium.envs.registration import EnvSpec
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import VecEnv, VecMonitor

from sb3_ext.vec_env.state.pickling import LAYERS, Layer, StateUnpickler, belongs_to_process, dump_state

__all__ = ["HOOK", "CantSave", "find_layers", "load_layers", "save_layers", "signature"]

#: The attribute with which ``SubprocVecEnv`` reaches these functions
HOOK = "_sb3_ext_state"
#: Attributes that only describe the object
_NOT_STATE = frozenset(
    {"metadata", "_metadata", "render_mode", "class_attributes", HOOK}
    | {"_cached_spec", "_saved_kwargs", "_ezpickle_args", "_ezpickle_kwargs"}
)
#: Lists of all episodes, which grow without end
_MONITOR_LISTS = frozenset({"episode_returns", "episode_lengths", "episode_times"})


class _State(NamedTuple):
    attributes: dict[str, Any]
    #: Names of attributes that are not restored
    left: set[str]
    #: What the method ``save_env_state`` of a class returns
    replaced: dict[str, Any]


class CantSave(ValueError):
    """The message says which attribute, and why."""


def find_layers(top: Layer) -> list[Layer]:
    """The object, what it is wrapped around, and other environments among their attributes."""
    layers: list[Layer] = []
    found = [top]
    while found:
        layer = found.pop()
        if any(layer is other for other in layers):
            continue
        layers.append(layer)
        attributes = sorted(vars(layer).items(), reverse=True)
        found += [value for name, value in attributes if isinstance(value, LAYERS)]
    return layers


def signature(layers: Sequence[Layer]) -> list[str]:
    """One line per layer. States fit only layers with the same lines."""
    return [f"{_class_name(layer)}{_arguments(layer)}" for layer in layers]


def _class_name(layer: Layer) -> str:
    # RL Zoo replaces Gymnasium's TimeLimit as soon as it is imported
    kind = next(kind for kind in type(layer).__mro__ if kind.__module__ != "rl_zoo3.gym_patches")
    return f"{kind.__module__}.{kind.__qualname__}"


def _arguments(layer: Layer) -> str:
    # CartPoleVecEnv has a spec of its own, NativeAtariVecEnv has settings
    names = ("_spec", "settings") if isinstance(layer, VecEnv) else ("_saved_kwargs", "spec")
    arguments = next((value for name in names if (value := vars(layer).get(name))), None)
    if isinstance(arguments, EnvSpec):
        kwargs = {key: value for key, value in arguments.kwargs.items() if key != "render_mode"}
        arguments = {"id": arguments.id, "max_episode_steps": arguments.max_episode_steps, **kwargs}
    return "" if arguments is None else re.sub(r" at 0x[0-9a-f]+", "", f" {arguments}")


def save_layers(layers: Sequence[Layer], others: Sequence[Layer] = ()) -> bytes:
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
        return dump_state(targets, [tuple(state) for state in states])
    # Classes of the environment fail in several ways
    except Exception as error:
        raise CantSave(_explain(targets, states, error)) from error


def load_layers(layers: Sequence[Layer], data: bytes, others: Sequence[Layer] = ()) -> Callable[[], None]:
    """
    Read the state without changing anything.

    :return: a function that changes the layers
    :raises ValueError: if it can't be read
    """
    unpickler = StateUnpickler(data, [*layers, *others])
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


def _state_of(layer: Layer) -> _State:
    save: Callable[..., dict[str, Any]] = getattr(type(layer), "save_env_state", lambda _: {})
    replaced = save(layer)
    left = _names_to_leave(layer) | set(replaced)
    attributes = {name: value for name, value in vars(layer).items() if name not in left}
    for clock in _clocks(layer):
        attributes[clock] = time.time() - attributes[clock]
    return _State(attributes, left, replaced)


def _set_state(layer: Layer, state: _State) -> None:
    own, left = vars(layer), state.left | _names_to_leave(layer)
    for name in set(own) - left:
        del own[name]
    own.update((name, value) for name, value in state.attributes.items() if name not in left)
    for clock in _clocks(layer):
        own[clock] = time.time() - own[clock]


def _names_to_leave(layer: Layer) -> set[str]:
    """Attributes that stay what the constructor of the new object made them."""
    of_monitor = _MONITOR_LISTS if isinstance(layer, Monitor) else ()
    return {*_NOT_STATE, *of_monitor, *(name for name, value in vars(layer).items() if belongs_to_process(value))}


def _clocks(layer: Layer) -> list[str]:
    """Attributes with the time of the start: the time since then goes on, without the pause."""
    if isinstance(layer, (Monitor, VecMonitor)):
        return ["t_start"]
    return ["_t_start"] if isinstance(layer, VecEnv) and "_t_start" in vars(layer) else []


def _explain(targets: Sequence[Layer], states: Sequence[_State], error: Exception) -> str:
    for layer, state in zip(targets, states, strict=False):
        for name, value in {**state.attributes, **state.replaced}.items():
            try:
                dump_state(targets, value)
            # As above
            except Exception as reason:
                module = getattr(type(value), "__module__", "")
                kind = f"{module}.{type(value).__qualname__}".removeprefix("builtins.")
                text = f"{reason}".strip().splitlines()[0] if f"{reason}".strip() else type(reason).__name__
                return f"{type(layer).__name__}.{name} ({kind}) can't be pickled: {text.rstrip('.')}"
    return f"{type(targets[0]).__name__} can't be pickled: {error}"
