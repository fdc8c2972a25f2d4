"""Examples in the docs run as they are: YAML as hyperparameter files, Python as scripts. Links and paths exist."""

import argparse
import ast
import re
from pathlib import Path

import gymnasium as gym
import pytest
import rl_zoo3.train  # noqa: F401  puts the extended ExperimentManager in place
import yaml
from rl_zoo3 import exp_manager
from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env

PROJECT = Path(__file__).parent.parent
PAGES = [PROJECT / "README.md", *sorted((PROJECT / "docs").glob("*.md"))]


def examples(language):
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for match in re.finditer(rf"^```{language}\n(.*?)^```", text, re.DOTALL | re.MULTILINE):
            line = text[: match.start()].count("\n") + 1
            yield f"{page.name}:{line}", match[1]


def sections():
    for name, example in examples("yaml"):
        for env_id, section in yaml.safe_load(example).items():
            yield pytest.param(env_id, section, id=f"{name}:{env_id}")


@pytest.mark.parametrize(("env_id", "section"), sections())
def test_an_example_can_be_trained(env_id, section, tmp_path, monkeypatch):
    if "my_package" in str(section):
        pytest.skip("names a class of the reader's")
    try:
        gym.make(env_id).close()
    except (gym.error.DependencyNotInstalled, gym.error.NamespaceNotFound) as error:
        pytest.skip(str(error))
    for _, script in examples("python"):
        # A script that starts with its file's name is that of a module which an example names
        if name := re.match(r"# (\w+\.py)\n", script):
            (tmp_path / name[1]).write_text(script, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("WANDB_MODE", "offline")
    config = tmp_path / "example.yml"
    config.write_text(yaml.safe_dump({env_id: section}), encoding="utf-8")
    manager = exp_manager.ExperimentManager(
        argparse.Namespace(num_threads=1),
        "ppo_lstm_ext" if "Lstm" in section["policy"] else "ppo_ext",
        env_id,
        str(tmp_path),
        config=str(config),
        n_eval_envs=1,
    )
    model, _ = manager.setup_experiment()
    model.env.close()


LINKING = [*PAGES, PROJECT / "CONTRIBUTING.md", PROJECT / "CHANGELOG.md", PROJECT / "scripts" / "README.md"]


def anchors(page):
    """GitHub's anchors of the headings."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", LINKING, ids=[str(page.relative_to(PROJECT)) for page in LINKING])
def test_links_and_paths_lead_somewhere(page):
    text = page.read_text(encoding="utf-8")
    broken = [path for path in re.findall(r"(?<![\w/])scripts/[\w/]+\.\w+", text) if not (PROJECT / path).exists()]
    for link in re.findall(r"\]\((?!http)([^)]+)\)", text):
        path, _, anchor = link.partition("#")
        target = page.parent / path if path else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(link)
    assert broken == []


PYTHON = [pytest.param(example, id=name) for name, example in examples("python")]


@pytest.mark.parametrize("example", PYTHON)
def test_what_a_python_example_imports_is_there(example):
    imports = [node for node in ast.parse(example).body if isinstance(node, ast.Import | ast.ImportFrom)]
    exec(compile(ast.Module(imports, []), "example", "exec"), {})


@pytest.mark.slow
@pytest.mark.parametrize("example", PYTHON)
def test_a_python_example_runs(example, tmp_path, monkeypatch):
    if "download_run" in example:
        pytest.skip("needs an account at W&B")
    if '"agent.' in example and "export_policy" not in example:
        pytest.skip("needs an exported file: tests/cli/test_export_command.py")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WANDB_MODE", "offline")
    env = make_vec_env("CartPole-v1")
    exec(re.sub(r"learn\([\d_]+", "learn(300", example), {"model": PPO("MlpPolicy", env), "env": env})
