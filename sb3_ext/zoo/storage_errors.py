"""Errors of Optuna's storages, in one line that names the storage."""

from collections.abc import Iterator
from contextlib import contextmanager

from sb3_ext.common.clean_text import mask_passwords
from sb3_ext.common.usage_error import UsageError

__all__ = ["naming_storage"]


@contextmanager
def naming_storage(storage: str | None) -> Iterator[None]:
    """
    Errors of the database name the flag and have one line.

    :param storage: as on the command line
    """
    try:
        yield
    # Of SQLAlchemy, which Optuna imports where it is needed, and hides behind an error of its own
    except Exception as error:
        cause = error.__cause__ if type(error).__name__ == "StorageInternalError" else error
        if not type(cause).__module__.startswith("sqlalchemy"):
            raise
        # SQLAlchemy's own text has the statement and a link, too
        lines = str(getattr(cause, "orig", None) or cause).splitlines()
        reason = " ".join(lines[0].split()).removesuffix(".") if lines else type(cause).__name__
        if reason == "database is locked":
            reason += ". Close the program that writes to it, and run the command again"
        raise UsageError(mask_passwords(f"--storage {storage} can't be used: {reason}.")) from error
