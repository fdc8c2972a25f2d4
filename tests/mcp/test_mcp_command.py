"""The command ``sb3-ext mcp``: its options, its tools, and what goes to stdout."""

import json
import os
import re
import subprocess

import pytest
from conftest import PROJECT
from mcp_client import COMMAND, connected

from sb3_ext.cli import main
from sb3_ext.mcp.access import Access
from sb3_ext.mcp.client_values import EXT_KEYS, REFUSED
from sb3_ext.mcp.server import make_server
from sb3_ext.mcp.trainings import Trainings


def test_a_read_only_server_has_no_tools_that_change_something(tmp_path):
    access = Access(tmp_path, 1000, 1, 60.0, read_only=True)
    with connected(make_server(access, Trainings(tmp_path, 1))) as caller:
        assert len(caller.tools()) == 11 and all(tool.annotations.read_only_hint for tool in caller.tools().values())


def test_the_docs_have_every_tool_and_every_key_that_is_refused_or_allowed(tmp_path):
    text = (PROJECT / "docs" / "mcp.md").read_text(encoding="utf-8")
    with connected(make_server(Access(tmp_path, 1000, 1, 60.0), Trainings(tmp_path, 1))) as caller:
        assert set(re.findall(r"^\| `(\w+_\w+)` \|", text, re.MULTILINE)) == set(caller.tools())
    assert all(f"`{key}`" in text for key in (*EXT_KEYS, *REFUSED) if key != "n_timesteps")


def test_only_the_protocol_goes_to_stdout_whatever_is_sent_or_printed(tmp_path):
    (tmp_path / "noisy.py").write_text("import os\nprint('hello')\nos.write(1, b'hello')\n")
    meta = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    messages = [
        "this is not JSON",
        "[" * 100_000,
        json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": meta}),
        json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"}),
        json.dumps({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "rm", "arguments": {}}}),
        json.dumps(
            {
                **{"jsonrpc": "2.0", "id": 3, "method": "tools/call"},
                "params": {"name": "list_configs", "arguments": {"env": "CartPole-v1"}},
            }
        ),
    ]
    with subprocess.Popen(
        [*COMMAND, "-f", "logs", "--gym-packages", "noisy"],
        **{"cwd": tmp_path, "stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE},
        text=True,
    ) as process:
        process.stdin.write("\n".join(messages) + "\n")
        process.stdin.flush()
        answers = {}
        while 3 not in answers:
            answer = json.loads(process.stdout.readline())
            answers[answer.get("id")] = answer
        process.stdin.close()
        assert process.stdout.read() == ""
        said = process.stderr.read()
    assert process.returncode == 0 and "hello" in said
    assert answers[3]["result"]["structuredContent"]["env"] == "CartPole-v1"
    assert answers[2]["result"]["isError"] is True
    assert not (tmp_path / "logs").exists(), "reading made a folder"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--gym-packages", "no_such_envs"], "there is no module 'no_such_envs'"),
        (["-f", __file__], "is a file: choose a folder."),
        (["--max-steps", "0"], "must be a whole number above 0"),
    ],
)
def test_a_server_with_a_wrong_option_does_not_start(words, said, capsys):
    try:
        assert main(["mcp", *words]) == 2
    except SystemExit as ended:
        assert ended.code == 2
    captured = capsys.readouterr()
    assert said in captured.err and captured.out == ""


def test_a_missing_sdk_is_named_with_the_command_that_installs_it(tmp_path):
    (tmp_path / "mcp.py").write_text("raise ModuleNotFoundError(\"No module named 'mcp'\", name='mcp')")
    path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(COMMAND, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True)
    assert (
        done.returncode == 2 and done.stderr == "sb3-ext: sb3-ext mcp needs the MCP SDK: pip install 'sb3-ext[mcp]'\n"
    )
