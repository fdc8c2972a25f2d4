"""``sb3-ext mcp``: a server that lets a language model train agents and look into runs."""

import argparse
import os
import sys
from importlib.util import find_spec
from pathlib import Path

from sb3_ext.cli.run_argument import add_log_folder
from sb3_ext.cli.whole_number import whole_number
from sb3_ext.common.usage_error import UsageError

__all__ = ["EPILOG", "add_arguments", "run"]

EPILOG = """A client starts it. In its settings:
  {"mcpServers": {"sb3-ext": {"command": "sb3-ext", "args": ["mcp", "-f", "/path/to/logs"]}}}

examples:
  sb3-ext mcp -f logs --read-only                     look at runs and play agents; train nothing
  sb3-ext mcp -f logs --max-steps 2e5 --max-processes 1
  sb3-ext mcp -f logs --gym-packages my_envs          with your own environments

It speaks the Model Context Protocol on stdin and stdout, and uses only the log folder. When it ends, so do all
trainings that it has started. Playing an agent and resuming a run load pickles: the log folder must only have runs that
you trust. docs/mcp.md says what a client may and may not do.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_log_folder(parser)
    parser.add_argument("--read-only", action="store_true", help="no tools that start, stop or resume trainings")
    for flag, default, text in (
        ("--max-steps", 1_000_000, "timesteps that one training may take"),
        ("--max-processes", 2, "trainings at the same time"),
        ("--max-seconds", 60, "seconds for playing an episode or checking a config"),
    ):
        parser.add_argument(
            flag, type=whole_number, default=default, metavar="N", help=f"{text} (default: {default:,})"
        )
    parser.add_argument(
        "--gym-packages", nargs="+", default=[], metavar="PACKAGE", help="modules that register your environments"
    )


def run(args: argparse.Namespace) -> int:
    try:
        from sb3_ext.mcp.server import serve
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in ("mcp", "mcp_types"):
            raise
        raise UsageError("sb3-ext mcp needs the MCP SDK: pip install 'sb3-ext[mcp]'") from None
    from sb3_ext.mcp.access import Access

    folder = Path(args.log_folder).resolve()
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"-f {args.log_folder} is a file: choose a folder.")
    sys.path.insert(0, os.getcwd())  # as `python -m` does: packages may be in the folder
    packages = tuple(args.gym_packages)
    for package in packages:  # not imported here: it may print
        if find_spec(package.partition(".")[0]) is None:
            raise UsageError(f"--gym-packages: there is no module {package!r}, neither installed nor here.")
    serve(Access(folder, args.max_steps, args.max_processes, args.max_seconds, packages, args.read_only))
    return 0
