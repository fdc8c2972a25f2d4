"""Reads CSV files of any length, a few megabytes at a time: a long training writes a gigabyte."""

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from sb3_ext.runs.plain_files import to_number

__all__ = ["Block", "Column", "read_csv_blocks"]

_BLOCK_BYTES = 1 << 23
#: Without pandas, a block takes sixteen times its bytes
_BLOCK_BYTES_WITHOUT_PANDAS = 1 << 19
#: In larger files, the last of sixteen digits may be wrong: exact reading takes more than twice as long
_EXACT_BYTES = 1 << 26
#: Smaller files are read without pandas. To import it takes 0.4 s and 60 MB, as long as to read 4 MB
_WORTH_PANDAS = 1 << 24


class Column(NamedTuple):
    """The rows of the block that have a number, and these numbers, with NaN and infinity."""

    rows: np.ndarray
    values: np.ndarray


class Block(NamedTuple):
    n_rows: int
    n_broken: int
    columns: Mapping[str, Column]


def read_csv_blocks(path: Path, skip: str | None = None) -> Iterator[Block]:
    """
    Read a CSV file with a header, after lines that start with ``skip``. A last line without a newline counts as broken:
    half a number looks like one.
    """
    n_bytes = path.stat().st_size
    with_pandas, exact = n_bytes > _WORTH_PANDAS, n_bytes <= _EXACT_BYTES
    block_bytes = _BLOCK_BYTES if with_pandas else min(_BLOCK_BYTES, _BLOCK_BYTES_WITHOUT_PANDAS)
    with path.open("rb") as file:
        header = file.readline()
        while skip is not None and header.startswith(skip.encode()):
            header = file.readline()
        if not header.endswith(b"\n"):
            yield Block(0, int(bool(header)), {})
            return
        names = next(csv.reader([header.decode(errors="replace").rstrip("\r\n")]), [])
        rest = b""
        while chunk := file.read(block_bytes):
            whole, newline, rest = (rest + chunk).rpartition(b"\n")
            if newline:
                yield _parse(names, whole + newline, with_pandas, exact)
        if rest:
            yield Block(0, 1, {})


def _parse(names: Sequence[str], text: bytes, with_pandas: bool, exact: bool) -> Block:
    is_plain = b'"' not in text and b"\r" not in text
    if with_pandas and is_plain and text.count(b",") == text.count(b"\n") * (len(names) - 1):
        try:
            return _parse_fast(names, text, exact)
        except ValueError:
            pass  # lines of different lengths with the right number of cells in all
    return _parse_slowly(names, text)


def _parse_fast(names: Sequence[str], text: bytes, exact: bool) -> Block:
    import pandas as pd  # type: ignore[import-untyped]

    frame = pd.read_csv(
        io.BytesIO(text),
        header=None,
        names=list(range(len(names))),
        index_col=False,
        keep_default_na=False,
        na_values=[""],  # not "nan", which is a value
        low_memory=False,
        float_precision="round_trip" if exact else None,
        encoding_errors="replace",
    )
    columns = {}
    for index, name in enumerate(names):
        cells = frame[index].to_numpy()
        if cells.dtype.kind in "biuf":
            values = cells.astype(np.float64)
            rows = np.flatnonzero(~np.isnan(values))
            columns[name] = Column(rows, values[rows])
        else:
            columns[name] = _column_of(enumerate(cells))
    return Block(len(frame), 0, columns)


def _parse_slowly(names: Sequence[str], text: bytes) -> Block:
    rows: list[list[str]] = []
    n_broken = 0
    try:
        for cells in csv.reader(io.StringIO(text.decode(errors="replace"), newline="")):
            if len(cells) == len(names):
                rows.append(cells)
            elif cells:
                n_broken += 1
    except csv.Error:
        n_broken += 1
    columns = {name: _column_of(enumerate(cells)) for name, cells in zip(names, zip(*rows, strict=True), strict=False)}
    return Block(len(rows), n_broken, columns)


def _column_of(cells: Iterator[tuple[int, Any]]) -> Column:
    numbers = [(row, to_number(cell)) for row, cell in cells if isinstance(cell, str)]
    there = [(row, number) for row, number in numbers if number is not None]
    return Column(np.array([row for row, _ in there], dtype=np.int64), np.array([number for _, number in there], float))
