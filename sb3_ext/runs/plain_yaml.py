"""Reads the YAML files that RL Zoo writes into a run folder, without running any code that they name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

__all__ = ["read_plain_yaml"]


class _PlainLoader(yaml.SafeLoader):
    """Makes no object but dicts, lists, numbers and texts."""


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
    if not path.is_file():
        return {}
    try:
        read = yaml.load(path.read_text(encoding="utf-8"), Loader=_PlainLoader)
    except (yaml.YAMLError, TypeError, ValueError) as error:
        problems.append(f"{path.name} can't be read: {str(error).splitlines()[0]}")
        return {}
    return read if isinstance(read, dict) else {}
