"""Objects whose state can be saved and restored, to continue a training where it was interrupted."""

import copy
from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

__all__ = ["Stateful", "put_state", "take_state"]

_UNCHANGEABLE = frozenset({type(None), bool, int, float, str, tuple})


def take_state(owner: object, names: Iterable[str]) -> dict[str, Any]:
    """The attributes ``names``, as plain data that doesn't change with ``owner``. Cheap: items of lists are shared."""
    return {name: _copied(getattr(owner, name)) for name in names if hasattr(owner, name)}


def put_state(owner: object, names: Iterable[str], state: Mapping[str, Any]) -> None:
    """The reverse of :func:`take_state`. Attributes that ``state`` lacks stay as they are."""
    for name in names:
        if name in state:
            _put(owner, name, state[name])


class Stateful:
    """Has a state: the attributes in ``state_names`` of its class and of the classes it inherits from."""

    #: Attributes with numbers, texts, arrays, collections of these, or objects with a state. Settings don't belong here
    state_names: ClassVar[tuple[str, ...]] = ()
    _all_names: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls._all_names = tuple(name for base in cls.__mro__ for name in vars(base).get("state_names", ()))

    def state(self) -> dict[str, Any]:
        """What is needed to continue, as plain data that can be pickled and doesn't change later."""
        return take_state(self, self._all_names)

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from what :meth:`state` returned, perhaps in another process. The settings stay as they are."""
        put_state(self, self._all_names, state)


class _Nested(dict[str, Any]):
    """The state of an object within another one."""


def _copied(value: Any) -> Any:
    if type(value) in _UNCHANGEABLE:  # most are, and this is the fastest way to know
        return value
    if isinstance(value, Stateful):
        return _Nested(value.state())
    if isinstance(value, dict):
        # Not a Counter or defaultdict, whose factory may not be picklable
        return {key: _copied(item) for key, item in value.items()}
    return copy.copy(value)


def _put(owner: object, name: str, value: Any) -> None:
    present = getattr(owner, name, None)
    if isinstance(present, Stateful) or isinstance(value, _Nested):
        # One of them may be missing, if the settings have changed
        if isinstance(present, Stateful) and isinstance(value, _Nested):
            present.restore(value)
    elif isinstance(present, dict) and any(isinstance(item, Stateful) for item in present.values()):
        for key in present.keys() & value.keys():
            present[key].restore(value[key])
    elif isinstance(present, dict) and value is not None:
        present.clear()
        present.update({key: _copied(item) for key, item in value.items()})
    elif isinstance(present, deque):
        present.clear()  # its length is a setting
        present.extend(value)
    else:
        setattr(owner, name, _copied(value))
