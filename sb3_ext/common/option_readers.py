"""Values that are written in a config: read into what they mean, with an error that names the option."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import fields
from typing import Any, TypeVar

import numpy as np

from sb3_ext.common.names import check_choice, check_keywords

__all__ = [
    "Reader",
    "may_be_none",
    "read_choice",
    "read_finite",
    "read_flag",
    "read_mapping",
    "read_number",
    "read_share",
    "read_switch",
    "read_texts",
    "read_whole",
    "switched",
]

#: Is given the name of an option and what is written there
Reader = Callable[[str, Any], Any]

Config = TypeVar("Config")


def read_number(option: str, written: Any) -> float:
    """
    :param option: name of the option, for the error
    :param written: its value; YAML leaves ``1e-4`` as a string
    :raises ValueError: when it is not a number
    """
    try:
        if not isinstance(written, (bool, np.bool_)):
            return float(written)
    except (TypeError, ValueError):
        pass
    raise ValueError(f"{option}={written!r} must be a number.")


def read_finite(option: str, written: Any, at_least: float = -math.inf) -> float:
    """
    :param option: name of the option, for the error
    :param written: its value
    :param at_least: the least it may be
    :raises ValueError: when it is less, NaN or infinite
    """
    number = read_number(option, written)
    if not math.isfinite(number) or number < at_least:
        limit = "" if at_least == -math.inf else f", at least {at_least:g}"
        raise ValueError(f"{option}={written!r} must be a finite number{limit}.")
    return number


def read_whole(option: str, written: Any, at_least: int = 1) -> int:
    """
    :param option: name of the option, for the error
    :param written: its value; YAML reads ``1e5`` as a text, and ``1.0e+5`` as a float
    :param at_least: the least it may be
    :raises ValueError: when it is less, or no whole number
    """
    number = read_finite(option, written)
    if number < at_least or not number.is_integer():
        raise ValueError(f"{option}={written!r} must be a whole number, at least {at_least}.")
    return int(number)


def read_share(option: str, written: Any) -> float:
    """
    :param option: name of the option, for the error
    :param written: its value
    :raises ValueError: when it is not from 0 to 1
    """
    share = read_finite(option, written)
    if not 0.0 <= share <= 1.0:
        raise ValueError(f"{option}={written!r} must be a share, from 0 to 1.")
    return share


def read_flag(option: str, written: Any) -> bool:
    """
    :param option: name of the option, for the error
    :param written: its value; the string "no" would count as true
    :raises ValueError: when it is not true or false
    """
    if not isinstance(written, (bool, np.bool_)):
        raise ValueError(f"{option}={written!r} must be True or False (in YAML without quotes).")
    return bool(written)


def read_choice(option: str, written: Any, allowed: Collection[str]) -> str:
    """
    :param option: name of the option, for the error
    :param written: its value
    :param allowed: the values it may have
    :raises ValueError: when it has another one
    """
    check_choice(option, written, allowed)
    return written


def read_texts(option: str, written: Any, longest: int, what: str = "a list of texts") -> tuple[str, ...]:
    """
    :param option: name of the option, for the error
    :param written: its value: a list, or one text alone
    :param longest: how many letters each may have
    :param what: what it must be, for the error
    :raises ValueError: when it is anything else
    """
    texts = [written] if isinstance(written, str) else written
    if not isinstance(texts, Sequence) or not all(isinstance(text, str) and 0 < len(text) <= longest for text in texts):
        raise ValueError(f"{option}={written!r} must be {what}, with at most {longest} letters each.")
    return tuple(texts)


def read_mapping(where: str, written: Any) -> dict[str, Any]:
    """
    :param where: what to call it in the error
    :param written: keys with values; ``None``, as YAML reads a key with nothing after it, for none
    :raises ValueError: when it is something else
    """
    if written is None:
        return {}
    if not isinstance(written, Mapping):
        raise ValueError(f"{where}: {written!r} must be keys with values.")
    return dict(written)


def may_be_none(read: Reader) -> Reader:
    """
    :param read: reads a value
    :return: what leaves ``None`` as it is, and reads everything else so
    """
    return lambda option, written: None if written is None else read(option, written)


def switched(written: Any, config: type[Config], where: str, example: str) -> Config | dict[str, Any] | None:
    """
    :param written: ``true`` for all defaults, ``false`` for off, or options
    :param config: makes the defaults
    :param where: what to call it in errors, such as ``report:``
    :param example: an option with its value, for the error, such as ``plots: false``
    :return: the config; ``None`` when it is off; options that are to be read
    :raises ValueError: when it is something else
    """
    if written is None or written is False:
        return None
    if isinstance(written, config):
        return written
    if written is True:
        return config()
    if not isinstance(written, Mapping):
        raise ValueError(f"{where} {written!r} must be true, false, or keys with values, such as {{{example}}}.")
    return dict(written)


def read_switch(
    written: Any, config: type[Config], readers: Mapping[str, Reader], where: str, example: str
) -> Config | None:
    """
    :param written: ``true`` for all defaults, ``false`` for off, or options
    :param config: a dataclass with these options
    :param readers: for each of its fields, what reads it
    :param where: what to call it in errors, such as ``report:``
    :param example: an option with its value, for the error, such as ``plots: false``
    :return: the options; ``None`` when it is off
    :raises TypeError: when an option is not known
    :raises ValueError: when a value is not possible
    """
    found = switched(written, config, where, example)
    if not isinstance(found, dict):
        return found
    check_keywords(where, found, [field.name for field in fields(config)])  # type: ignore[arg-type]
    return config(**{name: readers[name](f"{where} {name}", value) for name, value in found.items()})
