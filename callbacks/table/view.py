"""Draws the live table: groups in columns, as many metrics as fit, and a progress bar."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import NamedTuple

from rich.console import RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table as Grid
from rich.text import Text

from sb3_ext.callbacks.table.format import arrow, clock, format_value, trend
from sb3_ext.callbacks.table.layout import fit
from sb3_ext.callbacks.table.state import AlertMetric, Cell, TableState
from sb3_ext.metrics.catalogue import MetricInfo, describe, ordered
from sb3_ext.metrics.curves import CurveStore
from sb3_ext.runs.report.charts import sparkline

__all__ = ["Footer", "TableView", "Widths"]

#: Minimum width of a column before there is another, and maximum width
_COLUMN, _WIDEST = 58, 80
_NAME, _VALUE, _UNIT, _SPARKLINE = 24, 10, 9, 24
#: Characters needed for ids of alerts
_ALERT = 20
_GAP = 2
#: Points of a curve per character of a sparkline, at most; more take time and look the same
_POINTS = 4
_TRENDS = {"good": "green", "bad": "red", "": "dim"}
_ALERT_STYLE = "bold red"
#: For terminals that can only show ASCII
_ASCII = {"▲": "^", "▼": "v", "─": "-", "⚠": "!", "…": "."}


class Widths(NamedTuple):
    """The parts of a column. If it is narrow, sparklines go first, then units, then names shrink."""

    name: int
    unit: int
    sparkline: int

    @classmethod
    def of(cls, column: int) -> Widths:
        left = column - (1 + _NAME + 1 + _VALUE + 2)
        if left < _UNIT:
            return cls(max(_NAME + left, 4), 0, 0)
        unit = _UNIT
        spark = min(left - unit - 1, _SPARKLINE)
        return cls(_NAME, unit, spark if spark >= 4 else 0)

    @property
    def tail(self) -> int:
        """Characters after the arrow."""
        return self.unit + (1 + self.sparkline if self.sparkline else 0)


class Footer(NamedTuple):
    steps: int
    total: int
    episodes: int
    steps_a_second: float
    seconds_left: float | None

    def text(self, width: int) -> str:
        """As much as fits; progress and remaining time stay longest."""
        share = f"{min(self.steps / self.total, 1.0):.0%} " if self.total > 0 else ""
        steps = f"{share}{self.steps:,} of {self.total:,} steps"
        episodes = f"{self.episodes:,} episodes"
        speed = f"{self.steps_a_second:,.0f} steps/s" if self.steps_a_second > 0 else ""
        left = f"{clock(self.seconds_left)} left" if self.seconds_left is not None else ""
        choices = ((steps, episodes, speed, left), (steps, speed, left), (steps, left))
        texts = [", ".join(part for part in parts if part) for parts in (*choices, (f"{share}{self.steps:,}", left))]
        return next((text for text in texts if len(text) <= width), texts[-1])

    def bar(self, width: int) -> RenderableType:
        text = self.text(width)
        room = width - len(text) - 1
        if room < 8:
            return Text(text, no_wrap=True, overflow="crop")
        grid = Grid.grid(padding=(0, 1, 0, 0))
        bar = ProgressBar(total=max(self.total, 1), completed=min(self.steps, self.total), width=min(room, 60))
        grid.add_row(bar, Text(text, no_wrap=True))
        return grid


class TableView:
    """``curves`` are for the sparklines."""

    def __init__(
        self,
        curves: CurveStore,
        metric_of_alert: AlertMetric | None = None,
        sparklines: bool = True,
        ascii_only: bool = False,
    ) -> None:
        self._curves = curves
        self._metric_of_alert = metric_of_alert
        self._sparklines = sparklines and not ascii_only
        self._ascii_only = ascii_only

    def lines(self, state: TableState, width: int, height: int) -> list[Text]:
        if height < 1:
            return []
        n_columns = max(1, (width + _GAP) // (_COLUMN + _GAP))
        column_width = min((width + _GAP) // n_columns - _GAP, _WIDEST)
        widths = Widths.of(column_width)
        alerts = state.alerts(self._metric_of_alert)
        names = tuple(ordered(state.names))
        # Leave room for the alerts below
        columns = fit(names, height - len(self._caption(alerts, width)), n_columns, frozenset(alerts))
        drawn = [self._column(names_in_it, state, alerts, widths, column_width) for names_in_it in columns]
        lines = [_beside(parts, column_width) for parts in zip_longest(*drawn)]
        shown = {name for column in columns for name in column} if widths.tail >= _ALERT else set()
        return [*lines, *self._caption({name: ids for name, ids in alerts.items() if name not in shown}, width)]

    def _column(
        self,
        names: Sequence[str],
        state: TableState,
        alerts: Mapping[str, list[str]],
        widths: Widths,
        column_width: int,
    ) -> list[Text]:
        lines: list[Text] = []
        group = None
        for name in names:
            info = describe(name)
            if info.group != group:
                group = info.group
                lines.append(self._title(group, column_width))
            lines.append(self._line(info, state.cells[name], alerts.get(name, []), widths))
        return lines

    def _title(self, name: str, column_width: int) -> Text:
        line = Text(name or "other", style="bold", no_wrap=True)
        line.append(" " + self._plain("─") * max(column_width - len(line) - 1, 0), style="not bold dim")
        return line

    def _line(self, info: MetricInfo, cell: Cell, alerts: list[str], widths: Widths) -> Text:
        style = _ALERT_STYLE if alerts else info.colour or ("dim" if cell.is_old else "")
        line = Text(style=style, no_wrap=True)
        line.append(" " + self._cut(info.short_name, widths.name).ljust(widths.name) + " ")
        value = self._cut(format_value(info, cell.value), _VALUE).rjust(_VALUE)
        line.append(value, style="bold" if info.highlight and not cell.is_old else "")
        sign = arrow(info, cell.previous, cell.value)
        line.append(" " + self._plain(sign or " "), style="" if alerts else _TRENDS[trend(info, sign)])
        if alerts and widths.tail >= _ALERT:
            line.append(" " + self._cut(self._plain("⚠ ") + ", ".join(alerts), widths.tail - 1))
            return line
        if widths.unit:
            unit = "" if info.clock else info.unit
            line.append(" " + self._cut(unit, widths.unit - 1).ljust(widths.unit - 1), style="dim")
        if widths.sparkline and self._sparklines:
            values = self._curve(info.name, widths.sparkline)
            curve = sparkline(values, widths.sparkline, broken="·") if len(values) > 1 else ""
            line.append(f" {curve}", style="cyan")
        return line

    def _curve(self, name: str, width: int) -> list[float]:
        """A few points per character, including the latest."""
        values = self._curves[name].series().values.tolist()
        every = max(len(values) // (_POINTS * width), 1)
        return values[::-1][::every][::-1]

    def _caption(self, alerts: Mapping[str, list[str]], width: int) -> list[Text]:
        if not alerts:
            return []
        texts = [f"{alert} ({name})" if name else alert for name, ids in alerts.items() for alert in ids]
        caption = self._plain("⚠ ") + ", ".join(texts)
        if len(caption) > width:
            caption = self._plain("⚠ ") + ", ".join(alert for ids in alerts.values() for alert in ids)
        return [Text(line, style=_ALERT_STYLE, no_wrap=True) for line in textwrap.wrap(caption, max(width, _ALERT))]

    def _plain(self, text: str) -> str:
        return "".join(_ASCII.get(sign, sign) for sign in text) if self._ascii_only else text

    def _cut(self, text: str, width: int) -> str:
        return text if len(text) <= width else text[: max(width - 1, 0)] + self._plain("…")


def _beside(parts: Sequence[Text | None], column_width: int) -> Text:
    """One line of several columns."""
    line = Text(no_wrap=True, overflow="crop")
    for index, part in enumerate(parts):
        text = Text(" " * column_width) if part is None else part
        line.append_text(text)
        if index < len(parts) - 1:
            line.append(" " * (max(column_width - text.cell_len, 0) + _GAP))
    return line
