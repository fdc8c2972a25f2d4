"""Writes rows to ``progress.csv`` and ``progress.json`` in the run folder. A resumed training appends to them.

SB3's formats would overwrite the files. Here they are opened at the end, with their columns.
"""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import Any

from stable_baselines3.common.logger import (
    CSVOutputFormat,
    JSONOutputFormat,
    KVWriter,
    Logger,
    filter_excluded_keys,
)

from sb3_ext.callbacks.base import RunCallback
from sb3_ext.runs.files import atomic_write
from sb3_ext.runs.run import Phase

__all__ = ["AppendedCSV", "AppendedJSON", "LogFiles", "log_files"]

#: Bytes to search at a time for the last line; a long training has gigabytes
_PIECE = 1 << 16


class AppendedJSON(JSONOutputFormat):
    """One JSON object per row, appended to the file."""

    def __init__(self, filename: str) -> None:
        _drop_unfinished_line(Path(filename))
        self.file = open(filename, "a", encoding="utf-8")


class AppendedCSV(CSVOutputFormat):
    """One line per row and one column per metric, appended to the file."""

    def __init__(self, filename: str) -> None:
        path = Path(filename)
        _drop_unfinished_line(path)
        path.touch()
        self.separator = ","
        self.quotechar = '"'
        with path.open(encoding="utf-8") as file:
            header = file.readline().rstrip("\n")
        self.keys = header.split(self.separator) if header else []
        self.file = path.open("a", encoding="utf-8")

    def write(self, key_values: dict[str, Any], key_excluded: dict[str, tuple[str, ...]], step: int = 0) -> None:
        new = [key for key in filter_excluded_keys(key_values, key_excluded, "csv") if key not in self.keys]
        if new:
            self._add_columns(new)
        super().write(key_values, key_excluded, step)

    def _add_columns(self, names: list[str]) -> None:
        # SB3 reads all lines into memory and overwrites them, which leaves a broken file if it is killed meanwhile
        path = Path(self.file.name)
        with atomic_write(path) as unfinished:
            with path.open(encoding="utf-8") as old, unfinished.open("w", encoding="utf-8") as new:
                new.write(self.separator.join([*self.keys, *names]) + "\n")
                old.readline()
                for line in old:
                    new.write(line.rstrip("\n") + self.separator * len(names) + "\n")
        self.keys += names
        self.file.close()
        self.file = path.open("a", encoding="utf-8")


def log_files(logger: Logger, folder: str | Path) -> list[KVWriter]:
    """Also write the rows of a training to ``progress.csv`` and ``progress.json``, after those already there.

    :param logger: of the training
    :param folder: the run folder
    :return: the formats that were added; not those that the logger already had
    """
    Path(folder).mkdir(parents=True, exist_ok=True)
    added: list[KVWriter] = []
    for name, make in (("progress.csv", AppendedCSV), ("progress.json", AppendedJSON)):
        path = Path(folder) / name
        if not _writes_to(logger, path):
            added.append(make(str(path)))
    logger.output_formats += added
    return added


class LogFiles(RunCallback):
    """
    Writes the rows of a training to ``progress.csv`` and ``progress.json``.

    :param folder: the run folder; ``None``: RL Zoo's, or that of the training's ``EvalCallback``
    :param verbose: verbosity
    """

    def __init__(self, folder: str | None = None, verbose: int = 0) -> None:
        super().__init__(verbose)
        self.folder = folder

    def _on_training_start(self) -> None:
        folder = self.folder or self.run.folder
        if folder is None:
            raise ValueError("LogFiles doesn't know where to write: give it folder=….")
        added = log_files(self.logger, folder)
        self.run.at_end(Phase.FILES, partial(_close, self.logger, added))


def _close(logger: Logger, added: list[KVWriter]) -> None:
    for output_format in added:
        if output_format in logger.output_formats:
            logger.output_formats.remove(output_format)
        output_format.close()


def _writes_to(logger: Logger, path: Path) -> bool:
    """Whether SB3 writes there too, because of ``configure(folder, ["csv"])``."""
    files = [getattr(output_format, "file", None) for output_format in logger.output_formats]
    names = [getattr(file, "name", None) for file in files]
    return any(isinstance(name, str) and Path(name).resolve() == path.resolve() for name in names)


def _drop_unfinished_line(path: Path) -> None:
    """A killed training may have left half a row."""
    if not path.exists():
        return
    with open(path, "rb+") as file:
        end = file.seek(0, os.SEEK_END)
        while end > 0:
            start = max(end - _PIECE, 0)
            file.seek(start)
            newline = file.read(end - start).rfind(b"\n")
            if newline >= 0:
                file.truncate(start + newline + 1)
                return
            end = start
        file.truncate(0)
