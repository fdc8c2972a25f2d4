"""Reads the small files of a run folder, whoever wrote them.

What is too large, nested too deeply or of the wrong type is left out and named: a report says what it was made from.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

__all__ = ["as_number", "checked", "read_json", "read_small_text"]

#: Bytes; those that a training writes have a few thousand
_MAX_SIZE = 100_000


def read_small_text(path: Path, problems: list[str]) -> str | None:
    """
    :param path: a text file
    :param problems: gets a line when the file can't be read
    :return: what it has; ``None`` when it is not there or can't be read
    """
    try:
        if not path.is_file():
            return None
        if path.stat().st_size > _MAX_SIZE:
            problems.append(f"{path.name} can't be read: it has more than {_MAX_SIZE:,} bytes.")
            return None
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        problems.append(f"{path.name} can't be read: {error}")
        return None


def read_json(path: Path, kind: type, problems: list[str]) -> Any:
    """
    :param path: a JSON file
    :param kind: ``dict`` or ``list``
    :param problems: gets a line when the file can't be read
    :return: what it has; ``None`` when it is not there or can't be read
    """
    text = read_small_text(path, problems)
    if text is None:
        return None
    try:
        read = json.loads(text)
    except (ValueError, RecursionError) as error:
        problems.append(f"{path.name} can't be read: {error}")
        return None
    if not isinstance(read, kind):
        problems.append(f"{path.name} contains a {type(read).__name__}; expected a {kind.__name__}.")
        return None
    return read


def as_number(value: Any) -> float | None:
    """
    :param value: anything
    :return: as a number; ``None`` when it is none that steps, seconds or scores can have. YAML reads 1e6 as a text
    """
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if math.isfinite(number) and abs(number) < 2**63 else None


def checked(values: Mapping[str, Any], kinds: Mapping[str, type], file: str, problems: list[str]) -> dict[str, Any]:
    """
    :param values: from a file
    :param kinds: what some of them must be, if they are not ``None``; a list is one of texts
    :param file: its name, for problems
    :param problems: gets a line for each value that is left out
    :return: the others
    """
    kept = {}
    for name, value in values.items():
        kind = kinds.get(name)
        if kind is float:
            is_right = isinstance(value, int | float) and as_number(value) is not None
        elif kind is list:
            is_right = isinstance(value, list) and all(isinstance(entry, str) for entry in value)
        else:
            is_right = kind is None or isinstance(value, kind)
        if value is None or is_right:
            kept[name] = value
        else:
            expected = {float: "a number", list: "a list of texts", str: "a text", bool: "true or false"}[kind or str]
            problems.append(f"{file}: {name} is {str(value)[:50]!r}; expected {expected}.")
    return kept
