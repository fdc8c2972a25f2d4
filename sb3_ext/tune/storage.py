"""Opens Optuna's storage of a study: a journal file, SQLite or PostgreSQL."""

from __future__ import annotations

import json
import os
import sqlite3
from contextlib import closing
from pathlib import Path

import optuna
from filelock import FileLock, Timeout
from optuna.storages import BaseStorage, JournalStorage, RDBStorage
from optuna.storages.journal import JournalFileBackend
from optuna.storages.journal._file import BaseJournalFileLock

from sb3_ext.common.usage_error import UsageError
from sb3_ext.tune.address import PATIENCE, Address, keep_trying
from sb3_ext.tune.lock import QUIET, say_locked, storage_lock
from sb3_ext.zoo.storage_errors import naming_storage

__all__ = ["naming_storage", "open_storage"]

#: How each line of a journal begins
_ENTRY = b'{"op_code":'


def open_storage(url: str | None, folder: Path, patience: float = PATIENCE) -> BaseStorage:
    """
    :param url: of ``--storage``: the path of a journal (``.log``), ``sqlite:///…`` or ``postgresql://…``; ``None`` for
        a journal in the folder
    :param folder: of the study; it is made, for what is written beside the storage too
    :param patience: seconds to wait for a locked file
    :raises UsageError: when it can't be used; the message has no password
    """
    address = Address.parse(url, folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"The folder {folder} can't be written: {error.strerror or error}.") from error
    # Two processes that create the tables at once would fail
    with naming_storage(address.shown), storage_lock(address, patience):
        return _open_database(address, patience) if address.path is None or address.url else _open_journal(address.path)


def _open_database(address: Address, patience: float) -> BaseStorage:
    if address.path is not None and _is_locked(address.path, min(QUIET, patience / 2)):
        say_locked(address.shown)
    try:
        storage = RDBStorage(address.url, engine_kwargs=address.engine_options(patience))
    except RuntimeError as error:  # the schema is of another release
        advice = "pip install -U optuna" if "pip install" in str(error) else "optuna storage upgrade --storage URL"
        raise UsageError(
            f"--storage {address.shown} was written by another release of Optuna than {optuna.__version__}. "
            f"Run `{advice}`, or use another storage."
        ) from error
    if address.kind == "postgresql":
        keep_trying(storage.engine)
    else:
        with storage.engine.connect() as connection:
            # So that a locked or read-only file is noticed now
            connection.exec_driver_sql("BEGIN IMMEDIATE")
    return storage


def _is_locked(path: Path, wait: float) -> bool:
    """What else is wrong with the file, :class:`RDBStorage` says."""
    try:
        with closing(sqlite3.connect(path, timeout=wait)) as connection:
            connection.execute("BEGIN IMMEDIATE")
    except sqlite3.Error as error:
        return "is locked" in str(error)
    return False


def _open_journal(path: Path) -> BaseStorage:
    wrong = f"{path} can't be used as the journal of a study"
    try:
        if path.exists():
            _check_entries(path)
        return JournalStorage(JournalFileBackend(str(path), lock_obj=_JournalLock(path)))
    except OSError as error:
        raise UsageError(f"{wrong}: {error.strerror or error}.") from error
    # Entries that are JSON but don't make sense to Optuna
    except (ValueError, LookupError, TypeError, AssertionError) as error:
        if isinstance(error, UsageError):
            raise
        raise UsageError(f"{wrong}: Optuna {optuna.__version__} can't read its entries. Use another file.") from error


def _check_entries(path: Path) -> None:
    """Optuna notices a broken entry only after the next one was written. A file of someone else must not be written."""
    with path.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            try:
                is_entry = _ENTRY.startswith(line[: len(_ENTRY)]) and (line[-1:] != b"\n" or bool(json.loads(line)))
            except ValueError:
                is_entry = False
            if not is_entry:
                advice = f"Delete line {number}" if number > 1 else "Use another file"
                raise UsageError(f"{path} is not a journal of Optuna: line {number} is not an entry. {advice}.")


class _JournalLock(BaseJournalFileLock):
    """
    Held while an entry is written. It ends with its process; with Optuna's, others wait for 30 s after a kill. A kill
    may also leave half an entry, to which Optuna would append the next one, and the journal could not be read again.
    """

    def __init__(self, journal: Path) -> None:
        self._journal = journal
        self._held: FileLock | None = None

    def acquire(self) -> bool:
        # A new one each time, which works after a fork too
        lock = FileLock(self._journal.with_name(f".{self._journal.name}.write.lock"))
        try:
            lock.acquire(timeout=PATIENCE, poll_interval=0.002)
        except Timeout:
            hangs = f"another process has been writing to it for {PATIENCE:g} s"
            raise UsageError(f"{self._journal} can't be written: {hangs}. If it hangs, end it.") from None
        self._held = lock
        try:
            self._cut_half_entry()
        except BaseException:
            self.release()
            raise
        return True

    def release(self) -> None:
        if self._held is not None:
            self._held.release()

    def _cut_half_entry(self) -> None:
        with self._journal.open("rb+") as file:
            if file.seek(0, os.SEEK_END) == 0:
                return
            file.seek(-1, os.SEEK_END)
            if file.read(1) != b"\n":
                file.seek(0)
                file.truncate(file.read().rfind(b"\n") + 1)
