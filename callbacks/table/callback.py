"""The live table, in place of SB3's; plain lines if the output is not a terminal."""

import math
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Annotated, Any, ClassVar, TextIO

import numpy as np
from pydantic import Field, PlainValidator
from rich import get_console
from rich.console import Console, Group
from rich.errors import LiveError
from rich.text import Text
from stable_baselines3.common.logger import HumanOutputFormat, KVWriter, Logger, filter_excluded_keys

from sb3_ext.callbacks.base import RunCallback
from sb3_ext.callbacks.table.plain import PlainLines
from sb3_ext.callbacks.table.resize import ResizableLive
from sb3_ext.callbacks.table.state import AlertMetric, TableState
from sb3_ext.callbacks.table.view import Footer, TableView
from sb3_ext.common.options import Number, Options, read_keywords
from sb3_ext.common.stateful import Stateful
from sb3_ext.metrics.curves import CurveStore
from sb3_ext.runs.rows import scalars
from sb3_ext.runs.run import Phase

__all__ = ["LiveTable", "Table", "TableOptions"]

#: Pause after drawing, in multiples of the time it took, so that it costs at most about 1 % of a training
_REST = 99.0
#: Whole tables are printed above someone else's progress bar
_ALL_LINES = 10_000


def _check_live(raw: Any) -> bool | str:
    if isinstance(raw, bool) or raw == "auto":
        return raw
    raise ValueError("must be 'auto', true or false")


class TableOptions(Options):
    """
    :param live: true: a table that stays in place, false: plain lines, ``auto``: depends on the output
    :param every_seconds: minimum time between plain lines; a line with a new alert comes at once
    :param sparklines: show curves in the table
    """

    callback: ClassVar[str] = "sb3_ext.callbacks.table.Table"

    live: Annotated[bool | str, PlainValidator(_check_live)] = "auto"
    every_seconds: Annotated[Number, Field(ge=0)] = 1.0
    sparklines: bool = True


class LiveTable(Stateful, KVWriter):
    """
    An output format for SB3's logger: a table that stays in place, or plain lines if not ``live``. Without ``bar``,
    whole tables are printed one below the other, above someone else's progress bar.
    """

    state_names: ClassVar[tuple[str, ...]] = ("_state", "_plain")

    def __init__(
        self,
        options: TableOptions,
        curves: CurveStore,
        console: Console,
        footer: Callable[[], Footer],
        live: bool,
        bar: bool,
        metric_of_alert: AlertMetric,
    ) -> None:
        self._console = console
        self._footer = footer
        self._bar = bar
        self._state = TableState()
        ascii_only = not console.encoding.lower().startswith("utf")
        self._view = TableView(curves, metric_of_alert, options.sparklines, ascii_only)
        self._plain: PlainLines | None = None
        if not live:
            self._plain = PlainLines(console.file, options.every_seconds, metric_of_alert)  # type: ignore[arg-type]
        self._live: ResizableLive | None = None
        self._lines: list[Text] = []
        self._drawn_for: tuple[int, int] | None = None
        self._is_new = False
        #: Earliest time of the next drawing
        self.draw_at = math.inf

    def start(self) -> None:
        if self._plain is not None:
            return
        self.draw_at = 0.0
        if not self._bar:
            return
        live = ResizableLive(self._console, self._everything)
        try:
            live.start()
        except LiveError:
            return  # there is another live display, and this version of rich can't nest them
        self._live = live
        self.draw()

    def write(self, key_values: dict[str, Any], key_excluded: dict[str, tuple[str, ...]], step: int = 0) -> None:
        shown = filter_excluded_keys(key_values, key_excluded, "stdout")
        values: dict[str, float | str] = {**scalars(shown)}
        values.update({name: value for name, value in shown.items() if isinstance(value, str)})
        if self._plain is not None:
            self._plain.write(step, self._footer().total, values)
            return
        self._state.add(step, values)
        self._is_new = True
        self._drawn_for = None
        if time.perf_counter() >= self.draw_at:
            self.draw()

    def draw(self) -> None:
        started = time.perf_counter()
        if self._live is not None:
            self._live.refresh()
        elif self._is_new:
            title = Text(f"{self._state.step:,} steps", style="bold")
            self._console.print(Group(title, *self._table(_ALL_LINES)))
        self._is_new = False
        now = time.perf_counter()
        self.draw_at = now + _REST * (now - started)

    def close(self) -> None:
        """Leave the last table on the screen. Can be called twice."""
        self.draw_at = math.inf
        if self._plain is not None:
            self._plain.flush()
        elif self._live is not None:
            self._live.stop()
            self._live, self._is_new = None, False
        elif self._is_new:
            self.draw()
            self.draw_at = math.inf

    def _everything(self) -> Group:
        width, height = self._console.size
        # One line for the bar, and one for the cursor
        return Group(*self._table(height - 2), self._footer().bar(width))

    def _table(self, height: int) -> list[Text]:
        size = (self._console.width, height)
        if self._drawn_for != size:
            self._lines = self._view.lines(self._state, *size)
            self._drawn_for = size
        return self._lines


class Table(RunCallback):
    """
    Shows a live table with a progress bar instead of SB3's table. With ``verbose=0`` there is neither. With SB3's
    progress bar (RL Zoo's ``-P``), it doesn't draw another one.

    :param metric_of_alert: the metric at which an alert is shown, by the alert's id; default: the alert's own
    :param verbose: verbosity
    :param options: how to show the rows
    :param fields: fields of :class:`TableOptions`, instead of ``options``
    """

    state_names: ClassVar[tuple[str, ...]] = ("_episodes", "table")

    def __init__(
        self,
        metric_of_alert: AlertMetric | None = None,
        verbose: int = 0,
        *,
        options: TableOptions | None = None,
        **fields: Any,
    ) -> None:
        super().__init__(verbose)
        self.options = read_keywords(TableOptions, options, fields, self)
        self.metric_of_alert = metric_of_alert
        self.table: LiveTable | None = None
        self._episodes = 0

    def _on_training_start(self) -> None:
        self._episodes = 0
        stock = _stock_table(self.logger)
        if stock is None:
            return
        live, console = self._screen(stock.file)
        self.table = LiveTable(
            self.options,
            self.run.rows.curves,
            console,
            self._footer,
            live=live,
            bar=not self.run.stock.has_progress_bar,
            metric_of_alert=self.metric_of_alert or self.run.alert_metrics.get,
        )
        formats = self.logger.output_formats
        formats[formats.index(stock)] = self.table
        self.run.at_end(Phase.SCREEN, partial(self._end, formats, stock))
        self.table.start()

    def _on_step(self) -> bool:
        if self.table is not None:
            self._episodes += int(np.count_nonzero(self.locals.get("dones", ())))
            if time.perf_counter() >= self.table.draw_at:
                self.table.draw()
        return True

    def _end(self, formats: list[KVWriter], stock: HumanOutputFormat) -> None:
        """Leave the last table on the screen, and give the logger SB3's table back."""
        table, self.table = self.table, None
        assert table is not None
        table.close()
        if table in formats:
            formats[formats.index(table)] = stock

    def _screen(self, file: TextIO) -> tuple[bool, Console]:
        """Whether to draw a live table, and where."""
        if self.options.live is True:
            return True, Console(file=file, force_terminal=True)
        # Rich's global console, so that this table and others who draw with rich know of each other
        console = get_console() if file is sys.stdout else Console(file=file)
        is_terminal = bool(getattr(file, "isatty", bool)()) and not console.is_dumb_terminal
        return self.options.live == "auto" and is_terminal, console

    def _footer(self) -> Footer:
        model = self.model
        done = model.num_timesteps - model._num_timesteps_at_start
        seconds = (time.time_ns() - model.start_time) / 1e9
        rate = done / seconds if seconds > 0 else 0.0
        left = max(model._total_timesteps - model.num_timesteps, 0)
        seconds_left = left / rate if rate > 0 else None
        return Footer(model.num_timesteps, model._total_timesteps, self._episodes, rate, seconds_left)


def _stock_table(logger: Logger) -> HumanOutputFormat | None:
    """SB3's table on the screen; there can be another one in a file."""
    formats = (output_format for output_format in logger.output_formats if isinstance(output_format, HumanOutputFormat))
    return next((output_format for output_format in formats if not output_format.own_file), None)
