"""``sb3-ext`` without a subcommand."""

from sb3_ext.cli import main


def test_the_command_alone_prints_its_help(capsys):
    assert main([]) == 0
    said = capsys.readouterr()
    assert "COMMAND" in said.out and "bench" in said.out and said.err == ""
