"""A virtual environment as a user has it, made in seconds."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest


class WheelEnv:
    """
    A virtual environment that borrows its dependencies from the one that runs the tests, by a path entry. Entries of a
    path entry's own ``.pth`` files are not followed, so the editable install of this package is not borrowed.
    """

    def __init__(self, folder):
        venv.create(folder)
        self.python = folder / "bin" / "python"
        self.site_packages = Path(sysconfig.get_path("purelib", vars={"base": str(folder)}))
        self._dependencies = self.site_packages / "dependencies.pth"
        self._lend_dependencies()

    def _lend_dependencies(self):
        self.site_packages.mkdir(parents=True, exist_ok=True)  # pip removes the folder with its last file
        self._dependencies.write_text(sysconfig.get_path("purelib"))

    def install(self, wheel):
        self._pip("install", "--no-deps", str(wheel))

    def uninstall(self):
        self._pip("uninstall", "--yes", "sb3-ext")

    def _pip(self, *args):
        # Without the borrowed packages in sight, nor the checkout: pip would find this package there already
        self._dependencies.unlink()
        command = [sys.executable, "-m", "pip", "--python", str(self.python), *args]
        subprocess.run(command, check=True, capture_output=True, env=_outside())
        self._lend_dependencies()

    def run(self, *args, cwd, check=True, **environment):
        """Run Python outside the checkout with the given arguments; returns the finished process."""
        result = subprocess.run(
            [str(self.python), *map(str, args)],
            cwd=cwd,
            env={**_outside(), "WANDB_MODE": "offline", "OMP_NUM_THREADS": "1", **environment},
            capture_output=True,
            text=True,
        )
        if check and result.returncode != 0:
            pytest.fail(f"{args} exited with {result.returncode}:\n{result.stdout[-3000:]}\n{result.stderr[-3000:]}")
        return result


def _outside():
    return {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
