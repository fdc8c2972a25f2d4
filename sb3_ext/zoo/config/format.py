"""Puts the keys of a hyperparameter file in canonical order. Comments, quotes and line breaks stay as they are."""

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import yaml

from sb3_ext.common.usage_error import UsageError
from sb3_ext.zoo.config.reader import read_config

__all__ = ["format_file", "format_text"]


def format_file(path: str | Path, order: Sequence[str]) -> str:
    """
    :param order: the keys of a section in canonical order
    :return: the text of the file, formatted
    """
    problems = read_config(path).problems
    if problems:
        raise UsageError("\n".join(map(str, problems)))
    return format_text(Path(path).read_text(encoding="utf-8"), order)


def format_text(text: str, order: Sequence[str]) -> str:
    """Lines are moved and never rewritten: comments stay with their keys, which no YAML library promises."""
    lines = [line.rstrip() for line in text.splitlines()]
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    assert isinstance(root, yaml.MappingNode)
    starts = [_first_line(lines, key.start_mark.line, 0) for key, _ in root.value]
    formatted = lines[: starts[0]]
    for (_, section), (start, end) in zip(root.value, pairwise([*starts, len(lines)]), strict=True):
        if formatted:
            formatted.append("")
        formatted += _without_repeated_blanks(_ordered(lines[:end], start, section, order))
    result = "\n".join(_without_repeated_blanks(formatted)) + "\n"
    try:
        is_same = yaml.safe_load(result) == yaml.safe_load(text)
    except yaml.YAMLError:
        is_same = False  # an alias would come before its anchor
    return result if is_same else text


def _first_line(lines: Sequence[str], line: int, column: int) -> int:
    """The first of the comment lines above a key that belong to it: those at its column."""
    while line > 0 and lines[line - 1].startswith(f"{' ' * column}#"):
        line -= 1
    return line


def _ordered(lines: list[str], start: int, section: yaml.Node, order: Sequence[str]) -> list[str]:
    """
    The lines of a section from ``start`` on, with its keys in order.

    :param lines: of the file, up to the end of the section
    """
    if not isinstance(section, yaml.MappingNode) or section.flow_style or not section.value:
        return lines[start:]
    keys = [key for key, _ in section.value]
    column, first = keys[0].start_mark.column, _first_line(lines, keys[0].start_mark.line, keys[0].start_mark.column)
    # Comments at the end, such as a key that is commented out, stay there
    end = len(lines)
    while not lines[end - 1] or lines[end - 1].startswith(f"{' ' * column}#"):
        end -= 1
    starts = [_first_line(lines, key.start_mark.line, column) for key in keys]
    blocks = [lines[begin:finish] for begin, finish in pairwise([*starts, end])]
    rank = {name: index for index, name in enumerate(["<<", *order])}
    last = len(rank) - 1  # `ext`; an unknown key comes before it
    ranked = sorted(zip(keys, blocks, strict=True), key=lambda pair: rank.get(pair[0].value, last - 0.5))
    return [*lines[start:first], *(line for _, block in ranked for line in block), *lines[end:]]


def _without_repeated_blanks(lines: list[str]) -> list[str]:
    kept = [line for before, line in pairwise(["", *lines]) if line or before]
    while kept and not kept[-1]:
        kept.pop()
    return kept
