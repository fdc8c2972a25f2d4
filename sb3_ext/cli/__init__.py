"""The ``sb3-ext`` command. Each subcommand is a module with ``EPILOG``, ``add_arguments`` and ``run``."""

from sb3_ext.cli.main import main

__all__ = ["main"]
