"""The error for a mistake in a command line."""

__all__ = ["UsageError"]


class UsageError(ValueError):
    """Its message says what is wrong and what to do. Commands end with it, without a traceback and with exit code 2."""
