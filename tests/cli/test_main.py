"""``sb3-ext`` without a subcommand."""

import subprocess
import sys

from sb3_ext.cli import main


def test_the_command_alone_prints_its_help(capsys):
    assert main([]) == 0
    said = capsys.readouterr()
    assert "COMMAND" in said.out and "bench" in said.out and said.err == ""


def test_help_loads_neither_torch_nor_pydantic():
    code = (
        "import sys; from sb3_ext.cli import main; main([]); "
        "sys.exit(','.join({'torch', 'pydantic', 'stable_baselines3'} & set(sys.modules)))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert run.stderr == "\n"  # none of them
