"""One scheduler at a time changes which trials there are. A lock ends with its process, however that ends."""

from __future__ import annotations

import functools
import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from filelock import FileLock, Timeout

from sb3_ext.common.clean_text import say
from sb3_ext.common.usage_error import UsageError
from sb3_ext.tune.address import PATIENCE, Address, keep_trying
from sb3_ext.zoo.storage_errors import naming_storage

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine

__all__ = ["QUIET", "say_locked", "storage_lock", "study_lock"]

#: Seconds to wait without a word
QUIET = 3.0

_LOCK_NOT_AVAILABLE = "55P03"
_HOLDERS = """
SELECT application_name, host(client_addr) FROM pg_locks JOIN pg_stat_activity USING (pid)
WHERE locktype = 'advisory' AND granted AND (classid::bigint << 32 | objid::bigint) = :key
"""


@contextmanager
def study_lock(url: str | None, folder: Path, study_name: str, patience: float = PATIENCE) -> Iterator[None]:
    """
    A file lock beside a journal or an SQLite file, an advisory lock in PostgreSQL. It can't be taken twice.

    :param url: of ``--storage``, as for :func:`~sb3_ext.tune.storage.open_storage`
    :param patience: seconds to wait for it
    :raises UsageError: when another process keeps it for longer; the message says which
    """
    address = Address.parse(url, folder)
    what = f"Study {study_name!r} in {address.shown}"
    if address.path is None:
        lock = _database_lock(address, study_name, what, patience, is_known=True)
    else:
        lock = _file_lock(address.path, study_name, what, patience)
    with lock:
        yield


@contextmanager
def storage_lock(address: Address, patience: float) -> Iterator[None]:
    """Held while a storage is opened. A server must answer at once then, because its address may be wrong."""
    if address.path is None:
        lock = _database_lock(address, "", address.shown, patience, is_known=False)
    else:
        lock = _file_lock(address.path, "", address.shown, patience)
    with lock:
        yield


@contextmanager
def _file_lock(path: Path, name: str, what: str, patience: float) -> Iterator[None]:
    key = f".{hashlib.sha256(name.encode()).hexdigest()[:8]}" if name else ""
    lock = FileLock(path.with_name(f".{path.name}{key}.lock"))

    def take(seconds: float) -> bool:
        with suppress(Timeout):
            lock.acquire(timeout=seconds, poll_interval=0.01)
        return lock.is_locked

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # filelock takes some errors for a lock of another process
        Path(lock.lock_file).touch()
        if not _wait_for(take, what, patience):
            raise _locked(what, patience, _holders(Path(lock.lock_file)))
    except OSError as error:
        raise UsageError(f"The folder {path.parent} can't be written: {error.strerror or error}.") from error
    try:
        yield
    finally:
        lock.release()


@contextmanager
def _database_lock(address: Address, name: str, what: str, patience: float, is_known: bool) -> Iterator[None]:
    """
    Of a transaction, not of a session: a proxy may give each transaction another session.

    :param is_known: whether the server was reached before, so that it's worth waiting for
    """
    from sqlalchemy.exc import DBAPIError

    key = int.from_bytes(hashlib.sha256(f"sb3-ext {name}".encode()).digest()[:8], "big", signed=True)
    with naming_storage(address.shown):
        connection = _engine(address, is_known, os.getpid()).connect()
    try:
        with naming_storage(address.shown):
            _wait_for_key(connection, key, what, patience)
        yield
    finally:
        # The server may have gone; then the lock has, too
        with suppress(DBAPIError):
            connection.rollback()
        connection.close()


@functools.lru_cache(maxsize=4)
def _engine(address: Address, is_known: bool, pid: int) -> Engine:
    """
    Its connection stays open: a new one costs as much as ten statements.

    :param pid: a process that was forked needs its own connection
    """
    from sqlalchemy import create_engine

    engine = create_engine(address.url, pool_size=1, **address.engine_options())
    if is_known:
        keep_trying(engine)
    return engine


def _wait_for_key(connection: Connection, key: int, what: str, patience: float) -> None:
    from sqlalchemy import text
    from sqlalchemy.exc import OperationalError

    def take(seconds: float) -> bool:
        limit = {"wait": f"{1000 * seconds:.0f}ms"}
        connection.execute(text("SELECT set_config('lock_timeout', :wait, true)"), limit)
        try:
            connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": key})
        except OperationalError as error:
            if _LOCK_NOT_AVAILABLE not in (getattr(error.orig, "sqlstate", None), getattr(error.orig, "pgcode", None)):
                raise
            connection.rollback()
            return False
        return True

    if not _wait_for(take, what, patience):
        holders = connection.execute(text(_HOLDERS), {"key": key})
        raise _locked(what, patience, [f"{name} (from {host or 'this machine'})" for name, host in holders])


def _wait_for(take: Callable[[float], bool], what: str, patience: float) -> bool:
    """:param take: waits for some seconds, and returns whether the lock is ours"""
    quiet = min(QUIET, patience / 2)
    if take(quiet):
        return True
    say_locked(what)
    return take(patience - quiet)


@functools.cache
def say_locked(what: str) -> None:
    """Once for each: many schedulers may wait for each other often."""
    say(f"Waiting: {what} is locked by another process.")


def _holders(lock_file: Path) -> list[str]:
    """Processes of this machine that have the file open."""
    import psutil

    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if any(Path(file.path) == lock_file.resolve() for file in process.open_files()):
                found.append(f"process {process.pid} ({process.name()})")
    return found


def _locked(what: str, patience: float, holders: list[str]) -> UsageError:
    who = ", ".join(holders) or "a process of another machine or user"
    return UsageError(
        f"{what} has been locked for {patience:g} s by {who}.\n"
        "If it hangs, end it and run the command again: the study continues where it was."
    )
