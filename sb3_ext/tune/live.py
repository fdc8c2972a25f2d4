"""Shows a study while it runs: a table that stays in place, or one line per finished trial without a terminal."""

from __future__ import annotations

import math
import textwrap
import time
from collections import Counter
from collections.abc import Sequence
from types import TracebackType
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table as Grid
from rich.text import Text

from sb3_ext.callbacks.table.format import clock
from sb3_ext.callbacks.table.resize import ResizableLive
from sb3_ext.common.clean_text import mask_passwords, printable
from sb3_ext.common.full_disk import tolerate_full_disk
from sb3_ext.runs.report.charts import compact, number
from sb3_ext.tune.record import value_text
from sb3_ext.tune.view import BestRow, RunningRow, StudyView

__all__ = ["LiveTable"]

#: Seconds between drawings, at least
_DRAW_EVERY = 0.2
_N_BEST = 5
#: Lines for the changes of the best trial; the others have one
_LINES_OF_BEST = 3
#: Lines besides those of the running trials: title, bar, states, two headings, the best trials, the cursor
_OTHER_LINES = 5 + _N_BEST + _LINES_OF_BEST
_BAR, _MAX_BAR = 10, 40
_GAP = "  "
#: A space at which no line is wrapped
_STAYS = "\N{NO-BREAK SPACE}"
_ENDED = ("complete", "pruned", "failed")


class LiveTable:
    """
    A context manager. Drawing happens in :meth:`update`, so call it about once a second.

    :param console: where to draw
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._view: StudyView | None = None
        self._is_ascii = not console.encoding.lower().startswith("utf")
        is_live = console.is_terminal and not console.is_dumb_terminal
        self._live = ResizableLive(console, self._everything) if is_live else None
        self._n_written: Counter[str] = Counter()
        self._draw_at = -math.inf

    def __enter__(self) -> LiveTable:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()  # the last table stays on the screen

    def update(self, view: StudyView) -> None:
        self._view = view
        if self._live is None:
            for row in view.finished[self._n_written[view.phase] :]:
                self.say(f"{row.name}: {_outcome(row.state, row.score)}{_best_of(view)}, {_times(view)}")
            self._n_written[view.phase] = len(view.finished)
        elif time.monotonic() >= self._draw_at:
            self._live.refresh()
            self._draw_at = time.monotonic() + _DRAW_EVERY

    def say(self, line: str) -> None:
        """Print a line, above the table."""
        with tolerate_full_disk(None):  # the output may be in a file
            # As a Text, because numbers in it need no colours, and brackets are no markup
            self._console.print(Text(self._shown(printable(mask_passwords(line)))), soft_wrap=True)

    def _everything(self) -> Group:
        view = self._view
        if view is None:
            return Group()
        width, height = self._console.size
        lines: list[RenderableType] = [self._line(view.title, "bold"), self._progress(view, width)]
        states = ", ".join(f"{count} {state}" for state, count in view.counts.items() if count)
        lines += [self._line(f" {states}", "dim")] if states else []
        if view.running:
            lines += [self._heading("running", width), self._running(view.running, width, height - _OTHER_LINES)]
        if view.best:
            lines += [
                self._heading("best trials, and what differs from the start", width),
                self._best(view.best[:_N_BEST], width),
            ]
        return Group(*lines)

    def _progress(self, view: StudyView, width: int) -> RenderableType:
        n_done = _n_done(view)
        unit = "trials" if view.phase == "search" else "trainings"
        of = f"{n_done} {unit}" if view.total is None else f"{n_done} of {view.total} {unit}"
        if view.total is not None:
            share = n_done / max(view.total, 1)
        else:
            share = view.elapsed / max(view.elapsed + (view.remaining or math.inf), 1e-9)
        text = f"{of}, {_times(view)}"
        return self._with_bar(f"{view.phase} ", share, f" {text}", width)

    def _with_bar(self, before: str, share: float, after: str, width: int) -> RenderableType:
        room = min(width - len(before) - len(after), _MAX_BAR)
        if room < _BAR:
            return self._line(before + after.strip(), "")
        grid = Grid.grid()
        grid.add_row(Text(before, "bold"), _bar(share, room), self._line(after, ""))
        return grid

    def _running(self, rows: Sequence[RunningRow], width: int, height: int) -> RenderableType:
        shown = rows if len(rows) <= height else rows[: max(height - 1, 1)]
        cells = [
            (
                f" trial {row.number}",
                f"seed {row.seed}/{row.n_seeds}",
                f"{compact(row.step)} of {compact(row.timesteps)}",
                "" if row.score is None else number(row.score),
                "" if row.proposed_by == f"trial {row.number}" else row.proposed_by,
            )
            for row in shown
        ]
        room = width - sum(max(map(len, column)) + len(_GAP) for column in zip(*cells, strict=True))
        grid = _grid(6)
        for row, (name, seed, steps, score, maker) in zip(shown, cells, strict=True):
            bar = _bar(row.step / max(row.timesteps, 1), min(room - len(_GAP), _MAX_BAR)) if room >= _BAR else ""
            grid.add_row(name, seed, bar, Text(steps, "dim"), Text(score, "bold"), Text(maker, "dim"))
        n_hidden = len(rows) - len(shown)
        return Group(grid, self._line(f" and {n_hidden} more", "dim")) if n_hidden else grid

    def _best(self, rows: Sequence[BestRow], width: int) -> RenderableType:
        cells = [(f" trial {row.number}", number(row.score), row.proposed_by) for row in rows]
        room = width - sum(max(map(len, column)) + len(_GAP) for column in zip(*cells, strict=True))
        grid = _grid(4)
        for index, (row, (name, score, maker)) in enumerate(zip(rows, cells, strict=True)):
            changes = self._wrapped(_changes_text(row.changes), max(room, _BAR), _LINES_OF_BEST if index == 0 else 1)
            grid.add_row(name, Text(score, "bold green" if index == 0 else "bold"), Text(maker, "dim"), changes)
        grid.columns[1].justify = "right"
        return grid

    def _wrapped(self, text: str, width: int, max_lines: int) -> Text:
        more = " ..." if self._is_ascii else " …"
        lines = textwrap.wrap(text, width, max_lines=max_lines, placeholder=more, break_on_hyphens=False)
        return self._line("\n".join(lines).replace(_STAYS, " "), "")

    def _heading(self, name: str, width: int) -> Text:
        line = Text(name, style="bold", no_wrap=True)
        return line.append(" " + ("-" if self._is_ascii else "─") * (width - len(name) - 1), style="not bold dim")

    def _line(self, text: str, style: str) -> Text:
        return Text(self._shown(printable(text)), style=style, no_wrap=True, overflow="crop")

    def _shown(self, text: str) -> str:
        """What the terminal's encoding lacks must not end a study."""
        return text.encode(self._console.encoding, "replace").decode(self._console.encoding)


def _changes_text(changes: dict[str, Any]) -> str:
    """Hyperparameters in one line; it can be wrapped between them only."""
    texts = (f"{name} {value_text(value)}".replace(" ", _STAYS) for name, value in changes.items())
    return ", ".join(texts) or "unchanged"


def _grid(n_columns: int) -> Grid:
    grid = Grid.grid(padding=(0, len(_GAP), 0, 0))
    for _ in range(n_columns):
        grid.add_column(no_wrap=True, overflow="crop")
    return grid


def _bar(share: float, width: int) -> ProgressBar:
    return ProgressBar(total=1.0, completed=min(share, 1.0), width=width)


def _n_done(view: StudyView) -> int:
    return sum(view.counts.get(state, 0) for state in _ENDED) if view.done is None else view.done


def _times(view: StudyView) -> str:
    left = "" if view.remaining is None else f", about {clock(view.remaining)} left"
    return clock(view.elapsed) + left


def _outcome(state: str, score: float | None) -> str:
    if score is None or not math.isfinite(score):
        return state
    return number(score) if state == "complete" else f"{state} at {number(score)}"


def _best_of(view: StudyView) -> str:
    return f" (best {number(view.best[0].score)} of trial {view.best[0].number})" if view.best else ""
