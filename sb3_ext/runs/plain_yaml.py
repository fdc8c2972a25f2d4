"""Reads the YAML files that RL Zoo writes into a run folder, without running any code that they name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from sb3_ext.runs.small_files import read_small_text

__all__ = ["read_plain_yaml"]

#: Of a mapping and all that is in it; a config has less than a hundred
_MAX_ENTRIES = 20_000


class _PlainLoader(yaml.SafeLoader):
    """Makes no object but dicts, lists, numbers and texts."""

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        """Merges (``<<``) are resolved when RL Zoo writes a file, and a few of them could fill the memory."""


def _ordered_dict(loader: yaml.SafeLoader, node: yaml.Node) -> Any:
    if not isinstance(node, yaml.SequenceNode):
        return {}
    pairs = loader.construct_sequence(node, deep=True)
    return dict(pairs[0]) if pairs else {}


def _plain(loader: yaml.SafeLoader, suffix: str, node: yaml.Node) -> Any:
    """For any other Python object: what it was made from."""
    if isinstance(node, yaml.MappingNode):
        return loader.construct_mapping(node, deep=True)
    if isinstance(node, yaml.SequenceNode):
        return loader.construct_sequence(node, deep=True)
    return suffix.rpartition(":")[2]


_PlainLoader.add_constructor("tag:yaml.org,2002:python/object/apply:collections.OrderedDict", _ordered_dict)
_PlainLoader.add_multi_constructor("tag:yaml.org,2002:python/", _plain)


def read_plain_yaml(path: Path, problems: list[str]) -> dict[str, Any]:
    """
    :param path: a file of RL Zoo's
    :param problems: gets a line when the file can't be read
    :return: what it holds; empty when it is not there, or no mapping
    """
    text = read_small_text(path, problems)
    if text is None:
        return {}
    try:
        read = yaml.load(text, Loader=_PlainLoader)
        if not _is_small(read):
            raise ValueError(f"it has more than {_MAX_ENTRIES:,} entries, or contains itself.")
    except (yaml.YAMLError, ArithmeticError, AttributeError, TypeError, ValueError, RecursionError) as error:
        problems.append(f"{path.name} can't be read: {(str(error).splitlines() or [''])[0]}")
        return {}
    return read if isinstance(read, dict) else {}


def _is_small(read: Any) -> bool:
    """A few aliases of aliases are a thousand million entries when they are written out."""
    waiting = [read]
    for _ in range(_MAX_ENTRIES):
        if not waiting:
            return True
        entry = waiting.pop()
        if isinstance(entry, dict):
            waiting += [*entry.keys(), *entry.values()]
        elif isinstance(entry, list | tuple | set):
            waiting += entry
        if len(waiting) > _MAX_ENTRIES:
            break
    return False
