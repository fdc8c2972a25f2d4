"""Text charts for terminals, Markdown files and language models.

500 ┤          ▂▇█████
    ┤╌╌╌╌╌╌╌╌╌▆███████ ← 475
    ┤       ▃█████████
261 ┤    ▁▆███████████
    ┤  ▂▆█████████████
 22 ┤▁▅███████████████
    └──────────────────
     256         100.4k steps
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

__all__ = ["chart", "compact", "markdown_table", "number", "sample_points", "sparkline", "without_padding"]

_BLOCKS = " ▁▂▃▄▅▆▇█"
_EIGHTHS = len(_BLOCKS) - 1
#: Marks NaN and infinity
_BROKEN = "!"
_LINE = "╌"
#: Maximum width of a column, in characters
_MAX_COLUMN = 6
#: Ratio of the largest value to the median above which the axis is logarithmic
_WIDE = 30.0
#: The comparison line is drawn if the curve still takes this fraction of the height
_MIN_SHARE = 0.15


def chart(
    steps: Sequence[float] | np.ndarray,
    values: Sequence[float] | np.ndarray,
    width: int = 60,
    height: int = 8,
    line: float | None = None,
) -> str:
    """
    Each column is the mean of the values in its range, or empty if it has none. NaN and infinity are shown as ``!``.

    :param width: of the curve, in characters
    :param height: of the curve, in lines
    :param line: drawn as a dashed line for comparison, if the curve is not far from it
    """
    if width < 2 or height < 2:
        raise ValueError(f"width={width} and height={height} must be 2 or more.")
    if len(steps) != len(values):
        raise ValueError(f"{len(steps)} steps and {len(values)} values: their numbers must be equal.")
    columns = _binned(np.asarray(steps, dtype=float), np.asarray(values, dtype=float), width)
    finite = columns[np.isfinite(columns)]
    if not len(finite):
        return f"({len(values)} values, none of them finite)" if len(values) else "(no values)"
    axis = _Axis.fitting(finite, line, height)
    n_chars = max(1, min(_MAX_COLUMN, width // len(columns)))
    rows = _rows(columns, axis, n_chars, line)
    start = compact(steps[0])
    end = compact(steps[-1]) if len(columns) > 1 else ""
    room = max(n_chars * len(columns) - len(end), len(start) + 2)
    indent = " " * axis.label_width
    notes = " (log scale)" if axis.log else ""
    if line is not None and not axis.has(line):
        notes += f"; {number(line)} is {'above' if line > axis.high else 'below'} this chart"
    n_broken = len(values) - int(np.isfinite(values).sum())
    if n_broken:
        notes += f"; {n_broken} of {len(values)} values are not finite ({_BROKEN})"
    rows.append(f"{indent} └{'─' * (n_chars * len(columns))}")
    rows.append(f"{indent}  {(start.ljust(room) + end).rstrip()} steps{notes}")
    return "\n".join(rows)


def sparkline(values: Sequence[float] | np.ndarray, width: int = 20, broken: str = _BROKEN) -> str:
    """The curve in one line of at most ``width`` characters; ``broken`` stands for NaN and infinity."""
    count = min(width, len(values))
    edges = [index * len(values) // count for index in range(count + 1)] if count else []
    means = [_finite_mean(values[start:end]) for start, end in pairwise(edges)]
    finite = [mean for mean in means if mean is not None]
    low, high = min(finite, default=0.0), max(finite, default=0.0)
    axis, is_flat = _Axis(low, high, height=1), _is_flat(low, high)
    levels = [0 if mean is None else _EIGHTHS // 2 if is_flat else axis.level(mean) for mean in means]
    return "".join(_BLOCKS[level] if level else broken for level in levels)


def _finite_mean(values: Sequence[float] | np.ndarray) -> float | None:
    finite = [value for value in values if math.isfinite(value)]
    # Divide first, because the sum of huge numbers can overflow
    return sum(value / len(finite) for value in finite) if finite else None


def sample_points(
    steps: Sequence[Any] | np.ndarray, values: Sequence[float] | np.ndarray, n: int = 10
) -> list[tuple[int, float]]:
    """At most ``n`` points of the curve at about evenly spaced steps, including the first and the last."""
    if not len(values):
        return []
    where = np.asarray(steps, dtype=float)
    wanted = np.linspace(where[0], where[-1], min(n, len(values)))
    right = np.clip(np.searchsorted(where, wanted), 1, max(len(where) - 1, 1))
    nearest = right - (wanted - where[right - 1] < where[np.minimum(right, len(where) - 1)] - wanted)
    indices = sorted({0, *map(int, nearest[1:-1]), len(values) - 1})
    return [(int(steps[index]), float(values[index])) for index in indices]


def markdown_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines of Markdown, aligned so that they are readable as plain text."""
    lines = [[cell.replace("|", "\\|").replace("\n", " ") for cell in row] for row in (header, *rows)]
    widths = [max(3, *map(len, column)) for column in zip(*lines, strict=True)]
    lines.insert(1, ["-" * width for width in widths])
    return [f"| {' | '.join(c.ljust(w) for c, w in zip(line, widths, strict=True))} |" for line in lines]


def without_padding(text: str) -> str:
    """The text with narrow tables, for language models: spaces that line up columns cost as much as words."""
    return re.sub(" {2,}[|]", " |", re.sub("-{4,}", "---", text))


def number(value: float) -> str:
    """Four significant digits, but all digits before the decimal point."""
    if not math.isfinite(value):
        return {math.inf: "inf", -math.inf: "-inf"}.get(value, "NaN")
    value, size = value + 0.0, abs(value)  # never -0
    if size >= 1e10:
        return f"{value:.4g}"
    if size >= 1000 or value == int(value):
        return f"{value:,.0f}"
    return f"{value:.4g}"


def compact(step: float) -> str:
    """A number of steps in few characters, such as ``25.6k``."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(step) >= size:
            return f"{step / size:.4g}{letter}"
    return f"{step:g}"


@dataclass(frozen=True)
class _Axis:
    """The vertical axis, linear or logarithmic; ``flat`` if there is only one value, shown in the middle."""

    low: float
    high: float
    height: int
    log: bool = False
    flat: bool = False

    @classmethod
    def fitting(cls, values: np.ndarray, line: float | None, height: int) -> _Axis:
        low, high = float(values.min()), float(values.max())
        if line is not None and math.isfinite(line):
            with_line = min(low, line), max(high, line)
            if _is_flat(low, high) or high - low >= _MIN_SHARE * (with_line[1] - with_line[0]):
                low, high = with_line
        if _is_flat(low, high):
            # A constant is drawn at half height
            margin = abs(low) / 2 or 1.0
            return cls(low - margin, high + margin, height, flat=True)
        return cls(low, high, height, log=low > 0 and high > _WIDE * float(np.median(values)))

    def has(self, value: float) -> bool:
        return self.low <= value <= self.high

    def level(self, value: float) -> int:
        """Height of a value in eighths of a line, starting at 1."""
        return 1 + round(self._share(value) * (self.height * _EIGHTHS - 1))

    def label(self, row: int) -> str:
        """The label of a row, counted from the bottom."""
        if row in (0, self.height - 1):
            return number(self.low if row == 0 else self.high)
        if row != self.height // 2:
            return ""
        if self.flat:
            return number(self.low / 2 + self.high / 2)
        share = (row + 0.5) / self.height
        if self.log:
            value = math.exp((1 - share) * math.log(self.low) + share * math.log(self.high))
        else:
            value = (1 - share) * self.low + share * self.high
        return number(float(f"{value:.3g}"))

    @property
    def label_width(self) -> int:
        return max(len(self.label(row)) for row in range(self.height))

    def _share(self, value: float) -> float:
        if self.log:
            return (math.log(value) - math.log(self.low)) / (math.log(self.high) - math.log(self.low))
        # Halves, because the difference of two huge numbers can overflow
        return (value / 2 - self.low / 2) / (self.high / 2 - self.low / 2)


def _is_flat(low: float, high: float) -> bool:
    """Allows for rounding: means of equal numbers can differ."""
    return high / 2 - low / 2 <= 1e-12 * max(abs(low), abs(high))


def _rows(columns: np.ndarray, axis: _Axis, n_chars: int, line: float | None) -> list[str]:
    """From top to bottom."""
    levels = [axis.level(column) if math.isfinite(column) else None for column in columns]
    line_row = (axis.level(line) - 1) // _EIGHTHS if line is not None and axis.has(line) else None
    rows = []
    for row in reversed(range(axis.height)):
        empty = _LINE if row == line_row else " "
        cells = []
        for level, column in zip(levels, columns, strict=True):
            if level is None:
                # Infinity marks broken values, NaN a range without values
                cell = _BROKEN if row == 0 and math.isinf(column) else empty
            else:
                cell = _BLOCKS[max(0, min(_EIGHTHS, level - row * _EIGHTHS))].replace(" ", empty)
            cells.append(cell * n_chars)
        note = f" ← {number(line)}" if row == line_row and line is not None else ""
        rows.append(f"{axis.label(row):>{axis.label_width}} ┤{''.join(cells)}{note}".rstrip())
    return rows


def _binned(steps: np.ndarray, values: np.ndarray, width: int) -> np.ndarray:
    """Means of the finite values in at most ``width`` ranges; infinity if a range has only others, NaN if none."""
    n_points = len(np.unique(steps))
    if n_points == 0:
        return np.empty(0)
    n_bins = 1 if n_points == 1 else _n_bins(steps, min(width, n_points))
    indices = _bin_of(steps, n_bins)
    finite = np.isfinite(values)
    counts = np.bincount(indices[finite], minlength=n_bins)
    # Divide first, because the sum of huge numbers can overflow
    means = np.bincount(indices[finite], weights=values[finite] / counts[indices[finite]], minlength=n_bins)
    broken = np.bincount(indices[~finite], minlength=n_bins) > 0
    return np.where(counts > 0, means, np.where(broken, np.inf, np.nan))


def _n_bins(steps: np.ndarray, most: int) -> int:
    """Fewer ranges for unevenly spaced points, so that most ranges have one."""
    for n_bins in range(most, max(most // 3, 2), -1):
        if len(np.unique(_bin_of(steps, n_bins))) >= 0.8 * n_bins:
            return n_bins
    return max(most // 3, 2)


def _bin_of(steps: np.ndarray, n_bins: int) -> np.ndarray:
    if n_bins == 1:
        return np.zeros(len(steps), dtype=np.int64)
    shares = (steps - steps[0]) / (steps[-1] - steps[0])
    return np.minimum((shares * n_bins).astype(np.int64), n_bins - 1)
