"""Reads the small files of a run folder, whoever wrote them, without running any code that they name.

What is too large, nested too deeply or of the wrong type is left out and named: a report says what it is based on.
"""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

__all__ = ["as_number", "checked", "read_plain", "read_small_text", "to_number"]

#: Bytes; trainings write a few thousand
_MAX_SIZE = 100_000
#: Entries of a mapping and of everything in it; a config has less than a hundred
_MAX_ENTRIES = 20_000
_EXPECTED = {float: "a number", list: "a list of texts", str: "a text", bool: "true or false", dict: "a mapping"}


class _PlainLoader(yaml.SafeLoader):
    """Makes only dicts, lists, numbers and texts."""

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        """RL Zoo resolves merges (``<<``) when it writes a file, and a few of them could fill the memory."""


def _ordered_dict(loader: yaml.SafeLoader, node: yaml.Node) -> Any:
    pairs = loader.construct_sequence(node, deep=True) if isinstance(node, yaml.SequenceNode) else []
    return dict(pairs[0]) if pairs else {}


def _plain(loader: yaml.SafeLoader, suffix: str, node: yaml.Node) -> Any:
    """For any other Python object: its arguments."""
    if isinstance(node, yaml.MappingNode):
        return loader.construct_mapping(node, deep=True)
    if isinstance(node, yaml.SequenceNode):
        return loader.construct_sequence(node, deep=True)
    return suffix.rpartition(":")[2]


_PlainLoader.add_constructor("tag:yaml.org,2002:python/object/apply:collections.OrderedDict", _ordered_dict)
_PlainLoader.add_multi_constructor("tag:yaml.org,2002:python/", _plain)


def read_small_text(path: Path, problems: list[str]) -> str | None:
    """:return: ``None`` when the file does not exist, or can't be read: then ``problems`` gets a line"""
    try:
        if not path.is_file():
            return None
        if path.stat().st_size > _MAX_SIZE:
            raise OSError(f"it has more than {_MAX_SIZE:,} bytes.")
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        problems.append(f"{path.name} can't be read: {error}")
        return None


def read_plain(path: Path, kind: type, problems: list[str]) -> Any:
    """As :func:`read_small_text`, for JSON or YAML that contains a ``kind``: ``dict`` or ``list``."""
    text = read_small_text(path, problems)
    parse = json.loads if path.suffix == ".json" else _parse_yaml
    try:
        read = None if text is None else parse(text)
    except (yaml.YAMLError, ArithmeticError, AttributeError, TypeError, ValueError, RecursionError) as error:
        problems.append(f"{path.name} can't be read: {(str(error).splitlines() or [''])[0]}")
        return None
    if read is None or isinstance(read, kind):
        return read
    problems.append(f"{path.name} contains a {type(read).__name__}; expected a {kind.__name__}.")
    return None


def _parse_yaml(text: str) -> Any:
    read = yaml.load(text, Loader=_PlainLoader)
    # A few aliases of aliases stand for billions of entries
    waiting = [read]
    for _ in range(_MAX_ENTRIES):
        if not waiting:
            return read
        entry = waiting.pop()
        if isinstance(entry, dict):
            waiting += [*entry.keys(), *entry.values()]
        elif isinstance(entry, list | tuple | set):
            waiting += entry
        if len(waiting) > _MAX_ENTRIES:
            break
    raise ValueError(f"it has more than {_MAX_ENTRIES:,} entries, or contains itself.")


def to_number(value: Any) -> float | None:
    """:return: a value of a log file as a number; ``None`` for texts, histograms and empty cells"""
    if value in ("True", "False"):
        return float(value == "True")
    try:
        return float(value) if isinstance(value, (bool, int, float, str)) else None
    except (ValueError, OverflowError):
        return None


def as_number(value: Any) -> float | None:
    """:return: a finite number that steps, seconds or scores can have, also from a text such as ``1e6``"""
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if math.isfinite(number) and abs(number) < 2**63 else None


def checked(values: Mapping[str, Any], kinds: Mapping[str, type], file: str, problems: list[str]) -> dict[str, Any]:
    """
    :param kinds: what some of the values must be, if they are not ``None``; ``list`` is a list of texts
    :return: the values that are right; ``problems`` gets a line for each other one
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
            problems.append(f"{file}: {name} is {str(value)[:50]!r}; expected {_EXPECTED[kind or str]}.")
    return kept
