"""The rows of metrics that a logger writes: seen, completed and remembered before they reach table, files and trackers.

SB3's logger gathers numbers under names and hands them, at each ``dump``, to one format after the other. The format in
this file goes first: what it adds to a row, all others write.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from stable_baselines3.common.logger import KVWriter, Logger

from sb3_ext.metrics.curves import CurveStore
from sb3_ext.runs.guard import Guard

__all__ = ["Row", "RowSource", "Rows", "dump_row", "last_row", "rows_of", "scalars"]

_NUMBERS = (bool, int, float, np.number, np.bool_)
#: Is given the step and what the row has so far, and returns what to add to it
RowSource = Callable[[int, Mapping[str, Any]], Mapping[str, Any]]


@dataclass(frozen=True)
class Row:
    """
    :param step: timesteps when it was written
    :param values: its numbers, by name; histograms, videos and the like are left out
    """

    step: int
    values: Mapping[str, float] = field(default_factory=dict)


class Rows(KVWriter):
    """
    The first of a logger's formats, see :func:`rows_of`.

    :param logger: the logger whose rows these are
    """

    def __init__(self, logger: Logger) -> None:
        self._logger = logger
        self._sources: list[RowSource] = []
        self._guard = Guard("Metrics")
        self._judges: list[RowSource] = []
        #: Whether a callback writes what was recorded since the last row, when training ends
        self.has_last_row = False
        self._holds_screen = False
        self._afterwards: list[Callable[[], None]] = []
        self.history = CurveStore()
        self.latest = Row(0)

    def add_source(self, source: RowSource) -> None:
        """
        :param source: is asked for more numbers before each row is written
        """
        if source not in self._sources:
            self._sources.append(source)

    def add_judge(self, judge: RowSource) -> None:
        """
        :param judge: is asked after all sources, and sees what they added
        """
        if judge not in self._judges:
            self._judges.append(judge)

    def hold_screen(self) -> None:
        """There is a table on the screen, which the last row still belongs to."""
        self._holds_screen = True

    def release_screen(self) -> None:
        """It has been shown for the last time: now others may speak."""
        self._holds_screen = False
        afterwards, self._afterwards = self._afterwards, []
        for tell in afterwards:
            tell()

    def tell_at_end(self, tell: Callable[[], None]) -> None:
        """
        :param tell: prints what is to be read after a training: now, or below the table that is still there
        """
        if self._holds_screen:
            self._afterwards.append(tell)
        else:
            tell()

    def write(self, key_values: dict[str, Any], key_excluded: dict[str, tuple[str, ...]], step: int = 0) -> None:
        for source in self._sources:
            found = self._guard.run(getattr(source, "__qualname__", repr(source)), source, step, key_values)
            self._record(found or {})
        for judge in self._judges:
            self._record(judge(step, key_values))
        self.latest = Row(step, scalars(key_values))
        self.history.add(step, self.latest.values)

    def _record(self, found: Mapping[str, Any]) -> None:
        for name, value in found.items():
            self._logger.record(name, value)

    def close(self) -> None:
        """Nothing is held open."""


def rows_of(logger: Logger) -> Rows:
    """
    :param logger: of a model that is training
    :return: its rows; put in place when nobody has asked for them before
    """
    for output_format in logger.output_formats:
        if isinstance(output_format, Rows):
            return output_format
    rows = Rows(logger)
    logger.output_formats.insert(0, rows)
    return rows


def last_row(logger: Logger, step: int) -> None:
    """
    Write what was recorded since the last row: SB3 writes before it updates, and would lose the last update's numbers.

    :param logger: of a model whose training is over
    :param step: its timesteps
    """
    if logger.name_to_value:
        dump_row(logger, step)


def dump_row(logger: Logger, step: int) -> None:
    """
    Write a row now.

    :param logger: of a model
    :param step: its timesteps, which files have no other place for
    """
    logger.record("time/total_timesteps", step, exclude="tensorboard")
    logger.dump(step)


def scalars(values: Mapping[str, Any]) -> dict[str, float]:
    """
    :param values: what was recorded
    :return: what of it is a number
    """
    numbers: dict[str, float] = {}
    for name, value in values.items():
        if type(value) is float:  # most are, and this is the fastest way to know
            numbers[name] = value
        elif isinstance(value, _NUMBERS) or getattr(value, "ndim", None) == 0:
            numbers[name] = float(value)
    return numbers
