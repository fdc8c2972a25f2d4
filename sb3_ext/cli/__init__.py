"""The ``sb3-ext`` command: one small file a subcommand, each with ``add_parser`` and the function that it runs."""

from sb3_ext.cli.main import main

__all__ = ["main"]
