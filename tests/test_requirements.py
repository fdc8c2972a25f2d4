"""What an install needs: declared, and refused with a reason where it can't work."""

import ast
import configparser
import re
import shutil
import subprocess
import sys
from importlib.metadata import packages_distributions

from conftest import PROJECT

#: The distribution huggingface_sb3 is another, and breaks RL Zoo's. Gymnasium brings pygame or pygame-ce, which exclude
#: each other
BROUGHT_BY_OTHERS = {"huggingface_sb3", "pygame"}


def requirements():
    config = configparser.ConfigParser()
    config.read(PROJECT / "setup.cfg")
    return config["options"]["install_requires"].split()


def extras():
    """For users: their code imports them only when they are asked for."""
    config = configparser.ConfigParser()
    config.read(PROJECT / "setup.cfg", encoding="utf-8")
    lists = config["options.extras_require"]
    return [word for name in lists if name != "dev" for word in lists[name].split()]


def normalized(name):
    return re.sub(r"[-_.]+", "-", name).lower()


def imported_names():
    for folder in ("sb3_ext", "callbacks", "wrappers", "hyperparams"):
        for file in (PROJECT / folder).rglob("*.py"):
            for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Import):
                    yield from (alias.name.split(".")[0] for alias in node.names)
                elif isinstance(node, ast.ImportFrom) and node.level == 0:
                    yield node.module.split(".")[0]


def test_every_package_that_is_imported_is_declared():
    declared = {normalized(re.split(r"[\[<>=]", requirement)[0]) for requirement in [*requirements(), *extras()]}
    distributions = packages_distributions()
    third_party = set(imported_names()) - set(sys.stdlib_module_names) - {"sb3_ext"} - BROUGHT_BY_OTHERS
    assert {"numpy", "torch", "yaml"} <= third_party
    # Extras may not be installed here: their packages have their names
    missing = {name for name in third_party if not declared & set(map(normalized, distributions.get(name, [name])))}
    assert not missing


def test_every_requirement_has_a_lower_bound():
    assert [requirement for requirement in requirements() if ">=" not in requirement] == []


def test_a_checkout_whose_links_are_text_files_does_not_build_and_says_what_to_do(tmp_path):
    for name in ("setup.py", "setup.cfg", "README.md", "LICENSE"):
        shutil.copy(PROJECT / name, tmp_path / name)
    (tmp_path / "sb3_ext").mkdir()
    shutil.copy(PROJECT / "sb3_ext" / "__init__.py", tmp_path / "sb3_ext" / "__init__.py")
    for name in ("callbacks", "hyperparams", "wrappers"):
        (tmp_path / "sb3_ext" / name).write_text(f"../{name}")
    result = subprocess.run([sys.executable, "setup.py", "--version"], cwd=tmp_path, capture_output=True, text=True)
    assert result.returncode == 1
    assert "git config core.symlinks true" in result.stderr and "Traceback" not in result.stderr
