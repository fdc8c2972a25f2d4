"""What can't be written because a disk is full does not end a training: it is announced once, and tried again."""

import errno
import io
import os
import warnings
from contextlib import suppress
from pathlib import Path
from typing import TypeGuard

__all__ = ["WholeLines", "is_full_disk", "tolerate_full_disk"]

#: No space, no quota, a file that may not grow, a disk that failed and became read-only
_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO)
#: Folders that were announced
_announced: set[Path] = set()


def is_full_disk(error: BaseException | None) -> TypeGuard[OSError]:
    return isinstance(error, OSError) and error.errno in _ERRORS


class tolerate_full_disk:
    """Leaves out the rest of a ``with`` block if the disk is full, with a warning, once for each folder."""

    def __init__(self, folder: str | os.PathLike[str] | None) -> None:
        self._folder = folder

    def __enter__(self) -> None: ...

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: object) -> bool:
        if not is_full_disk(error):
            return False
        path = Path(self._folder or ".").absolute()
        if path not in _announced:
            _announced.add(path)
            warnings.warn(
                f"{path}: {os.strerror(error.errno or 0)}. Training goes on, and what was saved stays; logs and "
                "checkpoints are left out until they can be written again.",
                stacklevel=2,
            )
        return True


class WholeLines(io.StringIO):
    """
    A file to append text to. ``flush`` writes all of it or nothing, so lines stay whole if a disk is full or the
    process is killed.

    :param is_silent: say nothing of a full disk; for files beside others that do
    """

    def __init__(self, path: str | os.PathLike[str], is_silent: bool = False) -> None:
        super().__init__()
        self.name = os.fspath(path)
        self._file = open(path, "ab", buffering=0)
        self._is_silent = is_silent

    def flush(self) -> None:
        text = self.getvalue().encode(errors="replace")
        if not text:
            return
        self.seek(0)
        self.truncate()
        size = os.fstat(self._file.fileno()).st_size
        with tolerate_full_disk(None if self._is_silent else Path(self.name).parent):
            try:
                while text:
                    text = text[self._file.write(text) :]
            except OSError as error:
                with suppress(OSError):  # not a regular file
                    os.ftruncate(self._file.fileno(), size)
                if not (self._is_silent and is_full_disk(error)):
                    raise

    def close(self) -> None:
        if not self.closed:
            self.flush()
            with suppress(OSError):
                self._file.close()
        super().close()
