"""Checks for single arguments, which may come from YAML: it reads ``1e-4`` as a string, and ``"no"`` counts as true."""

from typing import Any

__all__ = ["read_flag", "read_number", "read_whole", "to_integer", "to_number"]


def _is_bool(raw: Any) -> bool:
    return type(raw).__name__ in ("bool", "bool_")  # the second is NumPy 1's


def to_number(raw: Any) -> float:
    """Read a number, also from a string such as ``"1e-4"``; ``True`` is not a number."""
    try:
        if not _is_bool(raw):
            return float(raw)
    except (TypeError, ValueError):
        pass
    raise ValueError("must be a number")


def to_integer(raw: Any) -> int:
    """Read an integer, also from ``1.0e+5`` or ``"1e5"``."""
    number = to_number(raw)
    if not number.is_integer():
        raise ValueError("must be a whole number")
    return int(number)


def read_number(option: str, raw: Any) -> float:
    """:func:`to_number` with an error that names the option."""
    try:
        return to_number(raw)
    except ValueError as error:
        raise ValueError(f"{option}={raw!r} {error}.") from None


def read_whole(option: str, raw: Any, at_least: int = 1) -> int:
    """:func:`to_integer` with a lower limit and an error that names the option."""
    number = read_number(option, raw)
    if not number.is_integer() or number < at_least:
        raise ValueError(f"{option}={raw!r} must be a whole number, at least {at_least}.")
    return int(number)


def read_flag(option: str, raw: Any) -> bool:
    if not _is_bool(raw):
        raise ValueError(f"{option}={raw!r} must be True or False (in YAML without quotes).")
    return bool(raw)
