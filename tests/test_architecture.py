"""The layers of the package, and what it knows about RL Zoo."""

import argparse
import ast
import importlib
import importlib.util
import inspect
import re
import sys
from pathlib import Path

import pytest
import rl_zoo3.enjoy
import rl_zoo3.train
from rl_zoo3 import exp_manager, import_envs

from sb3_ext import _autoload
from sb3_ext.runs.report import commands
from sb3_ext.zoo import experiment, playing, seams, train_flags, upstream

PROJECT = Path(__file__).parent.parent
#: Top to bottom. Packages on one line may import each other, unless that makes a circle
LAYERS = (
    ("cli",),
    ("tune", "inspect", "mcp"),
    ("zoo",),
    ("callbacks",),
    ("runs",),
    ("ppo_ext", "reinforce", "a2c_ext"),
    ("fast", "vec_env", "envs", "wrappers"),
    ("metrics",),
    ("common",),
)
LEVEL = {package: level for level, layer in enumerate(LAYERS) for package in layer}


def imports(path):
    """Names of the modules that a file imports, inside functions too, but not those for type checkers only."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    skipped = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            skipped.update(map(id, ast.walk(node)))
        elif id(node) not in skipped and isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif id(node) not in skipped and isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} has a relative import"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def files():
    for folder in ("sb3_ext", "callbacks", "wrappers"):
        for path in sorted((PROJECT / folder).rglob("*.py")):
            name = path.relative_to(PROJECT)
            if not any(parent.is_symlink() for parent in path.parents):
                package = name.parts[1] if folder == "sb3_ext" else folder
                yield name.as_posix(), package, path


def test_imports_go_down():
    up = set()
    for name, package, path in files():
        targets = {target.split(".")[1] for target in imports(path) if target.startswith("sb3_ext.")}
        above = {target for target in targets if LEVEL.get(target, 99) < LEVEL.get(package, -1)}
        up |= {(name, target) for target in above}
    assert not up


def test_broad_excepts_raise_again_or_say_why():
    silent = []
    for name, _, path in files():
        text = path.read_text(encoding="utf-8")
        lines = text.splitlines()
        for node in ast.walk(ast.parse(text)):
            if not isinstance(node, ast.ExceptHandler) or any(isinstance(child, ast.Raise) for child in node.body):
                continue
            is_broad = node.type is None or getattr(node.type, "id", "") in ("Exception", "BaseException")
            if is_broad and "#" not in "".join(lines[node.lineno - 2 : node.body[0].lineno]):
                silent.append(f"{name}:{node.lineno}")
    assert silent == [], "narrow these, or say in a comment above why any error may come here"


def test_every_package_has_a_layer():
    packages = {package for _, package, _ in files() if not package.endswith(".py")}
    assert packages <= set(LEVEL)


def test_the_import_hook_waits_for_the_modules_that_have_a_seam():
    waited_for = {("before", name) for name in _autoload._BEFORE} | {("after", name) for name in _autoload._AFTER}
    assert waited_for == set(seams._SEAMS)


def flags_of(command, monkeypatch):
    """The flags of one of RL Zoo's commands, from its parser."""

    class Parsed(Exception):
        pass

    def stop(parser, *args):
        raise Parsed(parser)

    monkeypatch.setattr(argparse.ArgumentParser, "parse_args", stop)
    monkeypatch.setattr(sys, "argv", [command.__name__])
    with pytest.raises(Parsed) as stopped:
        command()
    (parser,) = stopped.value.args
    return {flag: action for action in parser._actions for flag in action.option_strings}


def test_commands_to_train_use_the_flags_of_rl_zoo(monkeypatch):
    known = flags_of(rl_zoo3.train.train, monkeypatch)
    for name, flag, default in commands._ARGUMENTS:
        assert known[flag].dest == name
        if default is not None and name not in ("algo", "env"):
            assert known[flag].default == default, flag
    assert set(train_flags._FLAGS) <= set(known)


def test_commands_to_play_use_the_flags_of_rl_zoo(monkeypatch):
    known = flags_of(rl_zoo3.enjoy.enjoy, monkeypatch)
    for function in (commands.watch_commands, playing._playable_models):
        used = set(re.findall(r"(?<=[\" ])-f|--[a-z-]+", inspect.getsource(function)))
        assert used and used <= set(known)


def test_the_keys_of_a_section_are_those_that_rl_zoo_reads():
    source = inspect.getsource(exp_manager)
    for key in upstream.SECTION_KEYS:
        assert key == "ext" or f'"{key}"' in source, key


def test_the_packages_with_environments_are_those_that_rl_zoo_imports():
    tried = re.findall(r"^    import (\w+)$", inspect.getsource(import_envs), flags=re.MULTILINE)
    assert {*upstream.ENV_PACKAGES, "ale_py"} == set(tried)


def test_the_hyperparameter_files_are_where_rl_zoo_looks_for_them():
    assert upstream.hyperparams_folder() == Path(exp_manager.__file__).parent / "hyperparams"
    for algo in ("ppo", *upstream.FILES_WITHOUT_ALGORITHM):
        assert (upstream.hyperparams_folder() / f"{algo}.yml").is_file()


def test_only_zoo_imports_rl_zoo():
    assert {package for _, package, path in files() for name in imports(path) if name.split(".")[0] == "rl_zoo3"} == {
        "zoo"
    }


def missing_names(path, package):
    """What a file imports from a package that does not have it."""
    for target in imports(path):
        module, _, attribute = target.rpartition(".")
        if target.startswith(f"{package}.") and not hasattr(importlib.import_module(module), attribute):
            try:
                importlib.import_module(target)
            except ImportError:
                yield target


@pytest.mark.parametrize("path", sorted((PROJECT / "sb3_ext" / "zoo").glob("*.py")), ids=lambda path: path.name)
def test_every_name_that_zoo_imports_from_rl_zoo_exists(path):
    assert list(missing_names(path, "rl_zoo3")) == [], "RL Zoo has renamed or removed it"


@pytest.mark.parametrize("script", sorted((PROJECT / "scripts").rglob("*.py")), ids=lambda path: path.name)
def test_every_name_that_a_script_imports_exists(script):
    assert [*missing_names(script, "sb3_ext"), *missing_names(script, "rl_zoo3")] == []


def test_every_module_of_rl_zoo_that_is_patched_exists():
    for _, module in seams._SEAMS:
        assert importlib.util.find_spec(module), module


def test_every_method_of_the_manager_that_is_extended_exists():
    stock = experiment.ExtExperimentManager.__mro__[1]
    for name in set(re.findall(r"super\(\)\.(\w+)", inspect.getsource(experiment.ExtExperimentManager))):
        assert hasattr(stock, name), name
