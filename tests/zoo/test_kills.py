"""A short run of ``scripts/checks/kills.py``: one training for each way to kill it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "checks" / "kills.py"
KINDS = ["sigkill", "sigterm", "twice", "disk", "worker", "evaluation"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="trainings are forks")
def test_trainings_that_are_killed_can_be_resumed_and_leave_no_process():
    arguments = ["--n", str(len(KINDS)), "--seed", "884", "--kinds", *KINDS]  # a seed without slow variants
    done = subprocess.run(
        [sys.executable, SCRIPT, *arguments], capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 failed." in done.stdout
