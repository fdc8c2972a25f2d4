"""The error for a mistake in a command line or a file."""

import os

__all__ = ["UsageError", "wants_traceback"]


class UsageError(ValueError):
    """Its message says what is wrong and what to do. Commands end with it, without a traceback and with exit code 2."""


def wants_traceback() -> bool:
    """Whether the user wants to see tracebacks of mistakes too."""
    return os.environ.get("SB3_EXT_DEBUG", "0") not in ("", "0")
