"""A number somewhere inside an environment, named by its path: ``unwrapped.model.opt.gravity.2``."""

from collections.abc import MutableMapping, Sequence
from typing import Any

import gymnasium as gym
import numpy as np

from sb3_ext.common.names import nearest
from sb3_ext.wrappers.base import wrappers_of

__all__ = ["AttributePath"]


class AttributePath:
    """
    The first part is an attribute of the environment or of its outermost wrapper that has it. The next parts are
    attributes, indices of lists and arrays, or keys of mappings.

    Each access follows the whole path again, because environments replace their parts when they are reset.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._parts = path.split(".")
        if not all(self._parts):
            raise ValueError(f"{path!r} is not a path to an attribute: use names with dots, as in unwrapped.gravity.")

    @property
    def short(self) -> str:
        """The path without the words that lead to the environment itself."""
        return self.path.removeprefix("unwrapped.")

    def read(self, env: gym.Env) -> Any:
        return self._get(self._holder(env), len(self._parts) - 1)

    def write(self, env: gym.Env, value: Any) -> None:
        holder, last = self._holder(env), self._parts[-1]
        try:
            if isinstance(holder, np.ndarray):
                index = _index(last)
                if not np.can_cast(np.min_scalar_type(value), holder.dtype, "same_kind"):
                    raise TypeError(f"it is in an array of {holder.dtype}")
                holder[index] = value
            elif isinstance(holder, MutableMapping):
                holder[last] = value
            elif isinstance(holder, Sequence):
                holder[_index(last)] = value  # type: ignore[index]
            else:
                setattr(holder, last, value)
        except (AttributeError, TypeError) as error:
            raise ValueError(f"{self.path!r} can't be set to {value!r}: {error}.") from None

    def check(self, env: gym.Env) -> None:
        """Raise an error unless the path leads to a single value that can be changed."""
        value = self.read(env)
        if not isinstance(value, (bool, int, float, str, np.number, np.bool_)):
            hint = f": choose one of its {len(value)} elements, as in {self.path}.0" if _is_list(value) else ""
            raise ValueError(f"{self.path!r} is not a number but {type(value).__name__}{hint}.")
        self.write(env, value)

    def _holder(self, env: gym.Env) -> Any:
        """What has the last part of the path."""
        layers = [*wrappers_of(env), env.unwrapped]
        holder: Any = next((layer for layer in layers if hasattr(layer, self._parts[0])), None)
        if holder is None:
            known = {name for layer in layers for name in _names(layer, self._parts[0])}
            raise AttributeError(
                f"{env.unwrapped} and its wrappers have no attribute {self._parts[0]!r}: "
                f"{nearest(self._parts[0], known)}"
            )
        for position in range(len(self._parts) - 1):
            holder = self._get(holder, position)
        return holder

    def _get(self, holder: Any, position: int) -> Any:
        part = self._parts[position]
        try:
            if isinstance(holder, MutableMapping):
                return holder[part]
            return holder[_index(part)] if _is_list(holder) else getattr(holder, part)
        except (AttributeError, LookupError, TypeError):
            pass
        owner = ".".join(self._parts[:position]) or "the environment"
        if _is_list(holder):
            raise AttributeError(f"{self.path!r}: {owner} has elements 0 to {len(holder) - 1}, but no {part!r}.")
        known = [str(key) for key in holder] if isinstance(holder, MutableMapping) else _names(holder, part)
        raise AttributeError(
            f"{self.path!r}: {owner} ({type(holder).__name__}) has no {part!r}"
            + (f": {nearest(part, known)}" if known else ".")
        )


def _is_list(value: Any) -> bool:
    return (
        value.ndim > 0 if isinstance(value, np.ndarray) else isinstance(value, Sequence) and not isinstance(value, str)
    )


def _index(part: str) -> int:
    if not part.lstrip("-").isdigit():
        raise TypeError(f"{part!r} is not an index")
    return int(part)


def _names(holder: Any, like: str) -> list[str]:
    """Public names, and private ones if a private one was asked for."""
    names = list(getattr(holder, "__dict__", {})) or dir(holder)
    return [name for name in names if not name.startswith("_") or like.startswith("_")]
