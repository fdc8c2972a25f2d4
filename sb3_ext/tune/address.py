"""Where the trials of a study are stored: what ``--storage`` can be."""

from __future__ import annotations

import importlib.util
import os
import socket
import sqlite3
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from sb3_ext.common.clean_text import mask_passwords, say
from sb3_ext.common.usage_error import UsageError

if TYPE_CHECKING:
    from sqlalchemy import Engine

__all__ = ["PATIENCE", "Address", "keep_trying"]

#: Seconds to wait for a lock, of ours or of SQLite. Asking for a trial in a study of 10,000 trials takes a few
PATIENCE = 60.0
#: Seconds for which a database that was reached before may be away: a restart, an upgrade, a new route
_AWAY = 300.0
_JOURNAL = "study.log"


class Address(NamedTuple):
    """
    :param kind: ``journal``, ``sqlite`` or ``postgresql``
    :param path: of the file; ``None`` for a server
    :param url: for SQLAlchemy, with the password; empty for a journal
    :param shown: for messages, without the password
    """

    kind: str
    path: Path | None
    url: str
    shown: str

    @classmethod
    def parse(cls, url: str | None, folder: Path) -> Address:
        """
        :param url: of ``--storage``; ``None`` for a journal in the folder
        :raises UsageError: when it is none of the three kinds, or a driver is missing
        """
        if url is None:
            return cls("journal", folder / _JOURNAL, "", str(folder / _JOURNAL))
        scheme, separator, rest = url.partition("://")
        shown = mask_passwords(url)
        if not separator or scheme in ("file", "journal"):
            path = Path(rest if separator else url).expanduser()
            if path.suffix == ".log":
                return cls("journal", path, "", shown)
        if separator and scheme.partition("+")[0] == "sqlite":
            return cls("sqlite", _sqlite_path(rest, shown), url, shown)
        if separator and scheme.partition("+")[0] in ("postgresql", "postgres"):
            return cls("postgresql", None, _with_driver(scheme, rest, shown), shown)
        raise UsageError(
            f"--storage {shown} is not a storage. Expected a journal file (studies/cartpole.log), "
            "sqlite:///studies.db or postgresql://user@host/database."
        )

    def engine_options(self, patience: float = PATIENCE) -> dict[str, Any]:
        """:param patience: seconds to wait for a locked SQLite file"""
        if self.kind == "sqlite":
            # Python's 5 s are too few for 16 processes that write one file
            return {"connect_args": {"timeout": patience, "factory": _WriteAheadConnection}}
        if "+psycopg" not in self.url:
            return {"pool_pre_ping": True}
        # Connections are idle for as long as a trial takes, so they are checked before use. A server that vanished is
        # noticed after 30 s, not after the 15 minutes of TCP. A scheduler needs three connections at most: its own,
        # one of the heartbeat and one of the lock
        wait = {"connect_timeout": 10, "keepalives_idle": 20, "keepalives_interval": 5, "keepalives_count": 3}
        name = f"sb3-ext tune {socket.gethostname()} {os.getpid()}"
        return {
            "pool_pre_ping": True,
            "connect_args": {**wait, "tcp_user_timeout": 30_000, "application_name": name[:63]},
        }


class _WriteAheadConnection(sqlite3.Connection):
    """
    Readers don't wait for writers, and a commit does not wait for the disk. After a kill, nothing is missing; after a
    power failure, the last seconds may be. Measured: 0.02 ms a commit instead of 20 ms.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.execute("PRAGMA journal_mode=WAL")
        self.execute("PRAGMA synchronous=NORMAL")


def keep_trying(engine: Engine, patience: float = _AWAY) -> None:
    """New connections wait for a server that is away for a while, so that a restart does not end a study."""
    from sqlalchemy import Dialect, event

    @event.listens_for(engine, "do_connect")
    def connect(dialect: Dialect, record: Any, args: Any, options: Any) -> Any:
        start, is_told = time.monotonic(), False
        while True:
            try:
                return dialect.connect(*args, **options)
            except dialect.loaded_dbapi.OperationalError as error:
                if time.monotonic() - start > patience:
                    raise
                if not is_told:
                    reason = str(error).partition("\n")[0]
                    say(f"The database can't be reached; trying again for {patience:g} s: {reason}")
                is_told = True
                time.sleep(1.0)


def _sqlite_path(rest: str, shown: str) -> Path:
    """As SQLAlchemy reads it: the path follows a third slash."""
    path = rest.partition("?")[0].removeprefix("/")
    if not path or path == ":memory:":
        raise UsageError(
            f"--storage {shown} has no file, so the study could not be continued: use sqlite:///studies.db"
        )
    return Path(path)


def _with_driver(scheme: str, rest: str, shown: str) -> str:
    """psycopg 3 unless another driver is named."""
    from sqlalchemy import make_url
    from sqlalchemy.exc import ArgumentError

    driver = scheme.partition("+")[2] or "psycopg"
    url = f"postgresql+{driver}://{rest}"
    try:
        make_url(url)
    # A port that is not a number. The error may contain a part of the password, so it is not shown
    except (ArgumentError, ValueError):
        raise UsageError(
            f"--storage {shown} can't be read. Expected postgresql://user:password@host:5432/database; "
            "in the password, write %40 for @, %2F for / and %3A for a colon."
        ) from None
    if importlib.util.find_spec(driver) is None:
        extra = "pip install 'sb3-ext[postgresql]'" if driver == "psycopg" else f"the package {driver}"
        raise UsageError(f"--storage {shown} needs {extra}.")
    return url
