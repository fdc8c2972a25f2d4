"""Text files are UTF-8 on every machine, whatever its locale says."""

import ast
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from sb3_ext.cli.main import main

PROJECT = Path(__file__).parent.parent
SOURCES = [
    path
    for folder in ("sb3_ext", "callbacks", "wrappers", "hyperparams", "scripts")
    for path in sorted((PROJECT / folder).rglob("*.py"))
    if path.resolve() == path
]
#: Whose ``open`` is not that of text files
OTHERS = ("os", "archive", "Image")


def calls_without_encoding(path):
    """Ruff's rule for this (PLW1514) sees only paths that are made in the same expression."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.Call) or any(keyword.arg in ("encoding", None) for keyword in node.keywords):
            continue
        name = getattr(node.func, "id", None) or getattr(node.func, "attr", None)
        owner = getattr(getattr(node.func, "value", None), "id", None)
        if name not in ("open", "fdopen", "read_text", "write_text") or (name == "open" and owner in OTHERS):
            continue
        mode = node.args[-1] if node.args and "open" in name else None
        if not (isinstance(mode, ast.Constant) and "b" in str(mode.value)):
            yield f"{path.relative_to(PROJECT)}:{node.lineno}"


def test_every_text_file_is_opened_with_its_encoding():
    assert len(SOURCES) > 200
    assert [call for path in SOURCES for call in calls_without_encoding(path)] == []


@pytest.mark.skipif(os.name == "nt", reason="Windows has no LC_ALL")
def test_a_config_may_have_comments_in_any_language_on_a_machine_with_an_ascii_locale(tmp_path):
    conf = tmp_path / "conf.yml"
    conf.write_text("# Größe\nCartPole-v1: {policy: MlpPolicy, n_timesteps: 64}\n", encoding="utf-8")
    program = f"""
import argparse, rl_zoo3.train
manager = rl_zoo3.train.ExperimentManager(argparse.Namespace(), "ppo_ext", "CartPole-v1", "logs", config={str(conf)!r})
print(manager.read_hyperparameters()[0]["policy"])
"""
    ascii_only = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=ascii_only)
    assert done.stdout.endswith("MlpPolicy\n"), done.stderr


def test_a_report_can_be_printed_where_some_characters_can_not(tmp_path, monkeypatch):
    (tmp_path / "run.json").write_text(json.dumps({"state": "failed", "error": "Größe"}), encoding="utf-8")
    terminal = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", terminal)
    assert main(["report", "--print", str(tmp_path)]) == 0
    assert b"Gr??e" in terminal.buffer.getvalue()
