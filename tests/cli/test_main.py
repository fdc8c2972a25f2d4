"""``sb3-ext`` without a subcommand, and the way to its subcommands."""

import re
import subprocess
import sys

import pytest
from conftest import PROJECT

from sb3_ext.cli import main
from sb3_ext.cli.main import COMMANDS


def test_the_command_alone_prints_its_help(capsys):
    assert main([]) == 0
    said = capsys.readouterr()
    assert "COMMAND" in said.out and "bench" in said.out and said.err == ""


def test_an_unknown_subcommand_gets_the_nearest_name(capsys):
    with pytest.raises(SystemExit) as end:
        main(["benhc", "CartPole-v1"])
    assert end.value.code == 2
    assert "there is no command 'benhc': did you mean 'bench'?" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["resume", "show", "enjoy", "plot", "report", "review", "pack"])
def test_a_run_that_does_not_exist_is_a_mistake(command, tmp_path, capsys):
    assert main([command, "@last", "-f", str(tmp_path)]) == 2
    assert "has no runs, so there is no run '@last'" in capsys.readouterr().err


@pytest.mark.parametrize("command", COMMANDS)
def test_the_help_of_a_subcommand_has_examples(command, capsys):
    with pytest.raises(SystemExit) as end:
        main([command, "--help"])
    assert end.value.code == 0
    assert f"  sb3-ext {command} " in capsys.readouterr().out


def test_the_help_imports_no_subcommand():
    code = "import sys; from sb3_ext.cli import main; main([]); print([m for m in sys.modules if 'ext.cli.' in m])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=PROJECT)
    assert result.stdout.splitlines()[-1] == "['sb3_ext.cli.main']"


def test_the_package_runs_as_a_module():
    result = subprocess.run([sys.executable, "-m", "sb3_ext", "--version"], capture_output=True, text=True, cwd=PROJECT)
    assert result.stdout.startswith("sb3-ext ")


def test_a_mistake_is_short_and_debug_shows_where_it_was_found(capsys, tmp_path):
    assert main(["report", str(tmp_path / "nosuch")]) == 2
    assert len(capsys.readouterr().err.splitlines()) <= 3
    assert main(["report", str(tmp_path / "nosuch"), "--debug"]) == 2
    assert "Traceback" in capsys.readouterr().err


@pytest.mark.parametrize("command", COMMANDS)
def test_the_help_of_a_subcommand_imports_nothing_slow(command):
    code = f"import sys; from sb3_ext.cli import main\ntry: main(['{command}', '--help'])\nexcept SystemExit: pass\n"
    code += "print({'torch', 'gymnasium', 'numpy', 'pydantic', 'rich', 'matplotlib'} & set(sys.modules))"
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=PROJECT).stdout
    assert printed.splitlines()[-1] == "set()"


@pytest.mark.parametrize("command", COMMANDS)
def test_every_subcommand_is_documented_with_an_example(command):
    page = (PROJECT / "docs" / "command_line.md").read_text(encoding="utf-8")
    assert re.search(rf"^\| `{command}` .*`[^`]*sb3-ext {command}[^`]*` \|$", page, re.MULTILINE)
