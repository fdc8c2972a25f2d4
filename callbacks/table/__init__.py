"""The live table, plain lines outside a terminal, and the same numbers in files."""

from sb3_ext.callbacks.table.callback import Table
from sb3_ext.callbacks.table.log_files import LogFiles

__all__ = ["LogFiles", "Table"]
