"""``run.log``: what a training says besides its table, with times: messages, warnings, how it ended.

It is bounded: a text is written ten times at most, and a file that has grown too much gets only its end.
"""

from __future__ import annotations

import os
import time
import traceback
import warnings
from collections import Counter
from pathlib import Path
from typing import TextIO

from sb3_ext.common.clean_text import listeners, mask_passwords, printable
from sb3_ext.common.full_disk import WholeLines
from sb3_ext.common.usage_error import UsageError
from sb3_ext.runs.files import LOG_FILE

__all__ = ["LogFile"]

_MAX_REPEATS = 10
#: Characters that one training may add
_MAX_SIZE = 5_000_000


class LogFile:
    """
    From now on, what is said and warned about is also appended to ``run.log``. Only one file is open: the latest.

    :param folder: the run folder
    """

    _latest: LogFile | None = None

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        if LogFile._latest is not None:
            LogFile._latest.close()
        LogFile._latest = self
        self.path = Path(folder) / LOG_FILE
        self._file: TextIO | None = None
        self._times: Counter[str] = Counter()
        self._left = _MAX_SIZE
        try:
            self._file = WholeLines(self.path)
        except OSError as error:
            self._give_up(error)
            return
        listeners.append(self.write)
        self._show_before, warnings.showwarning = warnings.showwarning, self._show_warning

    def write(self, text: str) -> None:
        if self._file is None or self._left <= 0:
            return
        text = printable(mask_passwords(text)).strip()
        self._times[text] += 1
        if self._times[text] > _MAX_REPEATS:
            return
        self._left -= len(text)
        if self._left <= 0:
            text = "This file has become too large: from here on, it gets only the end of the training."
        elif self._times[text] == _MAX_REPEATS:
            text += " (said 10 times; not written again)"
        self._append(text)

    def end(self, summary: str, error: BaseException | None = None) -> None:
        """
        Write how the training ended, and close the file.

        :param error: written with its traceback, unless it is Ctrl-C or a mistake of the user
        """
        if isinstance(error, UsageError):
            summary += f": {error}"
        elif error is not None and not isinstance(error, KeyboardInterrupt):
            summary += "\n" + "".join(traceback.format_exception(error))[-100_000:]
        self._append(printable(mask_passwords(summary)).strip())
        self.close()

    def close(self) -> None:
        if self.write in listeners:
            listeners.remove(self.write)
            if warnings.showwarning == self._show_warning:  # nobody else has replaced it since
                warnings.showwarning = self._show_before
        file, self._file = self._file, None
        if file is not None:
            file.close()

    def _append(self, text: str) -> None:
        if self._file is None:
            return
        try:
            self._file.write(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {text}\n")
            self._file.flush()
        except OSError as error:
            self._give_up(error)

    def _give_up(self, error: OSError) -> None:
        try:
            self.close()
        except OSError:  # what could not be written is written again
            pass
        warnings.warn(f"{self.path} can't be written ({error.strerror}). Training continues without it.", stacklevel=3)

    def _show_warning(
        self,
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        self.write(f"{category.__name__}: {message} ({filename}:{lineno})")
        self._show_before(message, category, filename, lineno, file, line)
