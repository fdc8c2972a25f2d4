"""Describes each metric, from ``metrics.yml``, for the table, the report, trackers, alerts and docs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import Field, PlainValidator, model_validator

from sb3_ext.common.arguments import to_number
from sb3_ext.common.names import check_choice, check_keywords
from sb3_ext.common.options import Options, read_options

__all__ = [
    "INFERRED_BOUNDS",
    "Bound",
    "Catalogue",
    "MetricGroup",
    "MetricInfo",
    "catalogue",
    "describe",
    "ordered",
    "read_catalogue",
]

CATALOGUE_FILE = Path(__file__).with_name("metrics.yml")
#: Names of bounds that depend on the run, see ``bounds.py``
INFERRED_BOUNDS = ("actions", "entropy", "entropy_loss", "episode_length", "observations", "probability", "reward")
#: A number, ``None`` for none, or the name of a bound that depends on the run
Bound = float | str | None


class MetricGroup(Options):
    name: str
    title: str
    about: str = ""


def _read_bounds(raw: Any) -> tuple[Bound, Bound]:
    """One name for both sides, or a list with one for each."""
    sides = [raw, raw] if isinstance(raw, str) else raw
    if not isinstance(sides, list) or len(sides) != 2:
        raise ValueError("must be a name, or a list such as [0, null]")
    for side in sides:
        if isinstance(side, str):
            check_choice("bounds", side, INFERRED_BOUNDS)
        elif side is not None:
            to_number(side)
    return sides[0], sides[1]


class MetricInfo(Options):
    """
    :param name: name of the metric, or the pattern of a family
    :param read: how to read it, and what to change
    :param decimals: decimals to show; ``None`` shows ``digits`` significant ones
    :param clock: whether to show seconds as h:mm:ss
    :param priority: 1 to 9; 1 comes first in its group, and is shown even if there is little room
    :param bounds: values outside are impossible
    :param highlight: whether it is one of the few that everyone looks at
    :param better: ``higher``, ``lower``, or empty if neither is better
    :param chart: whether it is one of the main curves
    :param entry: name or pattern in the catalogue; empty if it is not there
    """

    name: str
    meaning: str = ""
    read: str = ""
    unit: str = ""
    decimals: Annotated[int, Field(ge=0, le=12)] | None = None
    digits: Annotated[int, Field(ge=1, le=12)] = 4
    clock: bool = False
    priority: Annotated[int, Field(ge=1, le=9)] = 5
    bounds: Annotated[tuple[Bound, Bound], PlainValidator(_read_bounds)] = (None, None)
    never_decreases: bool = False
    highlight: bool = False
    better: Literal["", "higher", "lower"] = ""
    chart: bool = False
    colour: str = ""
    entry: str = ""

    @model_validator(mode="after")
    def _check(self) -> MetricInfo:
        if {"decimals", "digits"} <= self.model_fields_set:
            raise ValueError("it has decimals and digits: give one of them")
        return self

    @property
    def group(self) -> str:
        """The part of the name before the slash; empty without one."""
        return self.name.partition("/")[0] if "/" in self.name else ""

    @property
    def short_name(self) -> str:
        """The name without the group."""
        return self.name.partition("/")[2] if "/" in self.name else self.name

    @property
    def is_family(self) -> bool:
        """Whether its entry is a pattern for many names."""
        return "*" in self.entry


class Catalogue:
    """Groups are in display order, metrics in the order of the file."""

    def __init__(self, groups: Iterable[MetricGroup], metrics: Iterable[MetricInfo]) -> None:
        self.groups, self.metrics = tuple(groups), tuple(metrics)
        self._named = {info.name: info for info in self.metrics if not info.is_family}
        # The longest pattern is the most specific
        self._families = sorted((info for info in self.metrics if info.is_family), key=lambda info: -len(info.name))
        self._group_order = {group.name: index for index, group in enumerate(self.groups)}
        self._entry_order = {info.entry: index for index, info in enumerate(self.metrics)}

    def describe(self, name: str) -> MetricInfo:
        if name in self._named:
            return self._named[name]
        for family in self._families:
            if fnmatchcase(name, family.entry):
                return family.model_copy(update={"name": name})
        return MetricInfo(name=name)

    def position(self, name: str) -> tuple[Any, ...]:
        """The key to sort by: group, priority, place in the file. Unknown names come last."""
        info = self.describe(name)
        group = self._group_order.get(info.group, len(self._group_order))
        return group, info.group, info.priority, self._entry_order.get(info.entry, len(self._entry_order)), name


@lru_cache(maxsize=1)
def catalogue() -> Catalogue:
    # Ten times faster with libyaml
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return read_catalogue(yaml.load(CATALOGUE_FILE.read_text(encoding="utf-8"), Loader=loader))


@lru_cache(maxsize=4096)
def describe(name: str) -> MetricInfo:
    """The metric's entry; defaults if it is not in the catalogue."""
    return catalogue().describe(name)


def ordered(names: Iterable[str]) -> list[str]:
    """Sort metrics by group, and by priority within each."""
    return sorted(names, key=_position)


@lru_cache(maxsize=4096)
def _position(name: str) -> tuple[Any, ...]:
    return catalogue().position(name)


def read_catalogue(raw: Mapping[str, Mapping[str, Any]]) -> Catalogue:
    check_keywords("The catalogue", raw, ("groups", "metrics"))
    groups = [read_options(MetricGroup, {"name": name, **entry}, name) for name, entry in raw["groups"].items()]
    metrics = []
    for name, entry in raw["metrics"].items():
        info = read_options(MetricInfo, {"name": name, "entry": name, **entry}, name)
        check_choice(f"{name}: group", info.group, [group.name for group in groups])
        if not info.meaning:
            raise ValueError(f"{name} needs a meaning.")
        metrics.append(info)
    return Catalogue(groups, metrics)
