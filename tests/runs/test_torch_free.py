"""Reading runs takes a fraction of a second, because it does not import torch."""

import pkgutil
import subprocess
import sys

import pytest

from sb3_ext.runs import report

TORCH_FREE = [
    "sb3_ext.cli.clean",
    "sb3_ext.cli.main",
    "sb3_ext.cli.report",
    "sb3_ext.cli.review",
    "sb3_ext.cli.runs",
    "sb3_ext.cli.show",
    "sb3_ext.common.clean_text",
    "sb3_ext.common.model_file",
    "sb3_ext.common.names",
    "sb3_ext.metrics.catalogue",
    "sb3_ext.metrics.curves",
    "sb3_ext.metrics.sample_efficiency",
    "sb3_ext.metrics.statistics",
    "sb3_ext.runs.agents.checkpoint",
    "sb3_ext.runs.agents.statistics",
    "sb3_ext.runs.describe",
    "sb3_ext.runs.facts",
    "sb3_ext.runs.files",
    "sb3_ext.runs.find_run",
    "sb3_ext.runs.folders",
    "sb3_ext.runs.logs",
    "sb3_ext.runs.record",
    "sb3_ext.runs.registry",
    "sb3_ext.runs.run_zip",
    "sb3_ext.runs.selection",
    *(f"{report.__name__}.{module.name}" for module in pkgutil.iter_modules(report.__path__)),
]


@pytest.mark.parametrize("library", ["torch", "stable_baselines3", "gymnasium"])
def test_modules_that_read_runs_do_not_import(library):
    imports = "; ".join(f"import {module}" for module in TORCH_FREE)
    program = f"import sys; {imports}; print({library!r} in sys.modules)"
    printed = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout
    assert printed.strip() == "False"
