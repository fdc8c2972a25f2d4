"""How wrappers read the arguments that a YAML file gives them."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from gymnasium import spaces

from sb3_ext.common.names import nearest

__all__ = ["change_parts", "parts_of", "read_parts", "spaces_with_parts", "with_zero"]


def parts_of(space: spaces.Space) -> dict[str | None, spaces.Space]:
    """The entries of a Dict; any other space by itself, with the key ``None``."""
    if not isinstance(space, spaces.Dict):
        return {None: space}
    return {key: part for key, part in space.spaces.items()}


def spaces_with_parts(space: spaces.Space, changed: Mapping[str | None, spaces.Space]) -> spaces.Space:
    """:param changed: new spaces for some parts, named as by :func:`parts_of`"""
    if not isinstance(space, spaces.Dict):
        return changed.get(None, space)
    return spaces.Dict({key: changed.get(key, part) for key, part in space.spaces.items()})


def change_parts(observation: Any, parts: Mapping[str | None, Any], change: Callable[[str | None, Any], Any]) -> Any:
    """:param change: gets the key and the value of each part"""
    if None in parts:
        return change(None, observation)
    return {**observation, **{key: change(key, observation[key]) for key in parts}}


def with_zero(space: spaces.Space) -> spaces.Space:
    """A Box without 0 gets wider bounds; other spaces stay the same."""
    if not isinstance(space, spaces.Box) or (np.all(space.low <= 0) and np.all(space.high >= 0)):
        return space
    return spaces.Box(np.minimum(space.low, 0), np.maximum(space.high, 0), dtype=space.dtype.type)


def read_parts(
    option: str,
    raw: Any,
    space: spaces.Space,
    fits: Callable[[spaces.Space], bool],
    wanted: str,
    at_most: float = np.inf,
) -> dict[str | None, np.ndarray]:
    """
    Read a number for all parts of a space, a list with one per number of a vector, or a dict of both for a Dict.

    :param fits: whether a part may have numbers; a number for all skips the other parts
    :param wanted: such parts in words, for errors
    :return: for each part with numbers, an array of the part's shape or a scalar
    """
    parts = parts_of(space)
    if not isinstance(raw, Mapping):
        chosen = {key: raw for key, part in parts.items() if fits(part)}
        if not chosen:
            raise ValueError(f"{option} is for {wanted}, but this is {space}.")
    else:
        if not isinstance(space, spaces.Dict):
            raise ValueError(f"{option}={raw!r} names the entries of a Dict, but this is {space}.")
        chosen = dict(raw)
        for key in chosen:
            if key not in parts:
                raise ValueError(f"{option}: there is no entry {key!r}: {nearest(str(key), list(space.spaces))}")
            if not fits(parts[key]):
                raise ValueError(f"{option} is for {wanted}, but the entry {key!r} is {parts[key]}.")
    return {key: _read_numbers(option, numbers, parts[key].shape, at_most) for key, numbers in chosen.items()}


def _read_numbers(option: str, raw: Any, shape: tuple[int, ...] | None, at_most: float) -> np.ndarray:
    try:
        numbers = np.asarray(raw, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"{option}={raw!r} must be a number, or a list with one per part.") from None
    if numbers.shape not in ((), shape):
        raise ValueError(f"{option}={raw!r} has the shape {numbers.shape}, but the part has {shape}.")
    if not (np.all(numbers >= 0) and np.all(numbers <= at_most) and np.all(np.isfinite(numbers))):
        raise ValueError(f"{option}={raw!r} must be {'0 or more' if at_most == np.inf else f'0 to {at_most:g}'}.")
    return numbers
