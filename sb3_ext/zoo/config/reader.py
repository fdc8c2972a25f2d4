"""Reads a hyperparameter file, and remembers the line of each value."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from sb3_ext.common.usage_error import UsageError

__all__ = ["ConfigError", "ConfigFile", "Problem", "raise_problems", "read_config"]

#: Deeper values have the line of what they are in
_MAX_DEPTH = 12


class Problem(NamedTuple):
    """
    :param where: file and line, or flag
    :param is_warning: whether training works all the same
    """

    where: str
    text: str
    is_warning: bool = False

    def __str__(self) -> str:
        return f"{self.where}: {'warning: ' * self.is_warning}{self.text}"

    @property
    def line(self) -> int:
        """0 for what has none."""
        line = self.where.rpartition(":")[2]
        return int(line) if line.isdecimal() else 0


class ConfigError(UsageError):
    """For a file that can't be checked at all."""

    def __init__(self, where: str, text: str) -> None:
        self.problem = Problem(where, text)
        super().__init__(str(self.problem))


class ConfigFile(NamedTuple):
    """
    :param problems: what YAML accepts, and is a mistake: keys that are there twice
    :param lines: by the path to a key or an item of a list
    """

    path: str
    sections: dict[str, Any]
    problems: list[Problem]
    lines: dict[tuple[str, ...], int]

    def where(self, path: Iterable[Any] = ()) -> str:
        """File and line of a key, or of the nearest one above it with a line."""
        keys = tuple(map(str, path))
        while keys and keys not in self.lines:
            keys = keys[:-1]
        return f"{self.path}:{self.lines[keys]}" if keys else self.path


def raise_problems(problems: Iterable[Problem]) -> None:
    """:raises UsageError: with a line for each problem that is not a warning"""
    lines = [str(problem) for problem in problems if not problem.is_warning]
    if lines:
        raise UsageError("\n".join(lines))


def read_config(path: str | Path, content: str = "environment ids to hyperparameters") -> ConfigFile:
    """
    :param content: what the file maps to what
    :raises ConfigError: when the file can't be read, or is not a mapping
    """
    loader = None
    try:
        loader = yaml.SafeLoader(Path(path).read_text(encoding="utf-8"))
        root = loader.get_single_node()
        problems = list(_duplicates(root, str(path), set())) if root is not None else []
        # Merges the mappings of `<<` into the nodes too
        sections = None if root is None else loader.construct_document(root)
    except OSError as error:
        raise ConfigError(str(path), f"can't be read: {error.strerror}.") from None
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{path}:{line}", f"is not encoded in UTF-8: {error.reason} at byte {error.start}.") from None
    except yaml.MarkedYAMLError as error:
        raise _syntax_error(error, path) from None
    except yaml.YAMLError as error:
        raise ConfigError(str(path), f"is not valid YAML: {' '.join(str(error).split())}.") from None
    finally:
        if loader is not None:
            loader.dispose()
    if not isinstance(sections, dict):
        found = "is empty" if sections is None else f"contains a {type(sections).__name__}"
        raise ConfigError(str(path), f"{found}: expected a mapping of {content}.")
    lines: dict[tuple[str, ...], int] = {}
    _find_lines(root, (), lines)
    return ConfigFile(str(path), sections, problems, lines)


def _syntax_error(error: yaml.MarkedYAMLError, path: str | Path) -> ConfigError:
    mark = error.problem_mark or error.context_mark
    where = str(path) if mark is None else f"{path}:{mark.line + 1}"
    if "'\\t'" in str(error.problem):
        return ConfigError(where, "there is a tab: YAML is indented with spaces.")
    reasons = " ".join(filter(None, (error.context, error.problem)))
    advice = "Check the colons, brackets and the indentation up to this line."
    return ConfigError(where, f"is not valid YAML: {reasons}.\n{advice}")


def _duplicates(node: yaml.Node, path: str, seen: set[int]) -> Iterable[Problem]:
    """
    YAML would silently use the last one.

    :param seen: nodes that were visited; an alias is the same node again
    """
    if id(node) in seen or not isinstance(node, yaml.CollectionNode):
        return
    seen.add(id(node))
    first: dict[str, int] = {}
    for item in node.value:
        key, value = item if isinstance(node, yaml.MappingNode) else (None, item)
        if key is not None:
            name, line = str(key.value), key.start_mark.line + 1
            if name in first and name != "<<":
                yield Problem(f"{path}:{line}", f"{name} is there twice, first in line {first[name]}: remove one.")
            first.setdefault(name, line)
        yield from _duplicates(value, path, seen)


def _find_lines(node: yaml.Node | None, path: tuple[str, ...], lines: dict[tuple[str, ...], int]) -> None:
    if len(path) > _MAX_DEPTH:
        return
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            lines[*path, str(key.value)] = key.start_mark.line + 1
            _find_lines(value, (*path, str(key.value)), lines)
    elif isinstance(node, yaml.SequenceNode):
        for index, item in enumerate(node.value):
            lines[*path, str(index)] = item.start_mark.line + 1
            _find_lines(item, (*path, str(index)), lines)
