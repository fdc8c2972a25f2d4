"""How wrappers read what a YAML file gives them: names, probabilities, whole numbers, numbers for parts of a space."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import numpy as np
from gymnasium import spaces

from sb3_ext.common.arguments import read_number
from sb3_ext.common.names import check_keywords, nearest

__all__ = ["checked_keywords", "parts_of", "read_parts", "read_probability", "spaces_with_parts"]

Function = TypeVar("Function", bound=Callable[..., Any])


def checked_keywords(function: Function) -> Function:
    """
    :param function: a constructor or a function
    :return: the same, with an error that tells the nearest name for a parameter that it doesn't have
    """
    owner = function.__qualname__.removesuffix(".__init__")
    known = list(inspect.signature(function).parameters)

    @functools.wraps(function)
    def checked(*args: Any, **kwargs: Any) -> Any:
        check_keywords(owner, kwargs, known)
        return function(*args, **kwargs)

    return checked  # type: ignore[return-value]


def read_probability(option: str, written: Any) -> float:
    """
    :param option: name of the option, for the error
    :param written: its value
    :raises ValueError: when it is not between 0 and 1
    """
    number = read_number(option, written)
    if not 0 <= number <= 1:
        raise ValueError(f"{option}={written!r} must be a probability, between 0 and 1.")
    return number


def parts_of(space: spaces.Space) -> dict[str | None, spaces.Space]:
    """
    :param space: an observation space
    :return: the entries of a Dict; any other space by itself, with the key ``None``
    """
    if not isinstance(space, spaces.Dict):
        return {None: space}
    return {key: part for key, part in space.spaces.items()}


def spaces_with_parts(space: spaces.Space, changed: Mapping[str | None, spaces.Space]) -> spaces.Space:
    """
    :param space: an observation space
    :param changed: new spaces for some of its parts, as ``parts_of`` names them
    :return: the space with these parts in it
    """
    if not isinstance(space, spaces.Dict):
        return changed.get(None, space)
    return spaces.Dict({key: changed.get(key, part) for key, part in space.spaces.items()})


def read_parts(
    option: str,
    written: Any,
    space: spaces.Space,
    fits: Callable[[spaces.Space], bool],
    wanted: str,
    at_most: float = np.inf,
) -> dict[str | None, np.ndarray]:
    """
    Read a number for all parts of a space, a list with one for each number of a vector, or a dict of both for a Dict.

    :param option: name of the option, for errors
    :param written: its value
    :param space: the space
    :param fits: whether numbers may be given for a part with this space; a number for all leaves the others alone
    :param wanted: such parts in words, for errors
    :param at_most: the greatest value a number may have; the least is 0
    :return: numbers for each part that has some, of the part's shape or without a shape
    """
    parts = parts_of(space)
    if not isinstance(written, Mapping):
        chosen = {key: written for key, part in parts.items() if fits(part)}
        if not chosen:
            raise ValueError(f"{option} is for {wanted}, and this is {space}.")
    else:
        if not isinstance(space, spaces.Dict):
            raise ValueError(f"{option}={written!r} names the entries of a Dict, and this is {space}.")
        chosen = dict(written)
        for key in chosen:
            if key not in parts:
                raise ValueError(f"{option}: there is no entry {key!r}: {nearest(str(key), list(space.spaces))}")
            if not fits(parts[key]):
                raise ValueError(f"{option} is for {wanted}, and the entry {key!r} is {parts[key]}.")
    return {key: _read_numbers(option, numbers, parts[key].shape, at_most) for key, numbers in chosen.items()}


def _read_numbers(option: str, written: Any, shape: tuple[int, ...] | None, at_most: float) -> np.ndarray:
    try:
        numbers = np.asarray(written, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"{option}={written!r} must be a number, or a list with a number for each part.") from None
    if numbers.shape not in ((), shape):
        raise ValueError(f"{option}={written!r} has the shape {numbers.shape}, and what it is for has {shape}.")
    if not (np.all(numbers >= 0) and np.all(numbers <= at_most) and np.all(np.isfinite(numbers))):
        raise ValueError(f"{option}={written!r} must be {'0 or more' if at_most == np.inf else f'0 to {at_most:g}'}.")
    return numbers
