"""The hook that runs at every interpreter start, next to other import hooks; with the standard library alone."""

import subprocess
import sys
import zipfile

import pytest
from conftest import PROJECT

SEAMS = ("exp_manager", "hyperparams_opt", "import_envs", "train", "utils")


@pytest.fixture
def rl_zoo(tmp_path):
    """A package with the name and the modules of RL Zoo and nothing in them: each seam fails, and says so."""
    folder = tmp_path / "path" / "rl_zoo3"
    folder.mkdir(parents=True)
    for name in ("__init__", "other", *SEAMS):
        (folder / f"{name}.py").write_text("loader = __loader__, __spec__.loader\n")
    return folder.parent


def run(*arguments):
    # -S leaves site-packages out
    command = [sys.executable, "-S", *arguments]
    return subprocess.run(command, env={}, capture_output=True, text=True, timeout=60)


def import_all(path, before="", warnings="always"):
    """Run some code, import all of RL Zoo with the hook in place; return which modules a seam failed for."""
    code = f"""
import sys
sys.path[:0] = [{str(PROJECT)!r}, {str(path)!r}]
import sb3_ext._autoload
{before}
from rl_zoo3 import other, {", ".join(SEAMS)}
assert all(module.loader for module in (other, {", ".join(SEAMS)}))
assert "sb3_ext" not in repr([(module.loader, module.__loader__, module.__spec__.loader) for module in (utils, other)])
"""
    result = run("-W", warnings, "-c", code)
    assert result.returncode == 0, result.stderr
    lines = [line for line in result.stderr.splitlines() if "sb3-ext could not plug into " in line]
    return sorted(line.partition("plug into ")[2].partition(",")[0] for line in lines)


EXPECTED = [f"rl_zoo3.{name}" for name in SEAMS]


@pytest.mark.parametrize("warnings", ["always", "error"])
def test_a_seam_that_fails_is_told_once_and_never_ends_the_import(rl_zoo, warnings):
    assert import_all(rl_zoo, warnings=warnings) == EXPECTED


def test_a_zip_whose_modules_share_a_loader_gets_each_seam_once(rl_zoo, tmp_path):
    with zipfile.ZipFile(tmp_path / "rl_zoo3.zip", "w") as archive:
        for file in (rl_zoo / "rl_zoo3").glob("*.py"):
            archive.write(file, f"rl_zoo3/{file.name}")
    assert import_all(tmp_path / "rl_zoo3.zip") == EXPECTED


def test_a_finder_without_find_spec_is_passed_over(rl_zoo):
    old = "type('OldFinder', (), {'find_module': lambda self, name, path=None: None})()"
    assert import_all(rl_zoo, f"sys.meta_path.insert(1, {old})") == EXPECTED


READ_ONLY_LOADER = """
import importlib.machinery
class ReadOnly(importlib.machinery.SourceFileLoader):
    def __setattr__(self, name, value):
        if name == "exec_module": raise AttributeError("read-only")
        super().__setattr__(name, value)
class Finder:
    @staticmethod
    def find_spec(name, path=None, target=None):
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is not None and name.startswith("rl_zoo3."): spec.loader = ReadOnly(name, spec.origin)
        return spec
sys.meta_path.insert(1, Finder)
"""
OLD_LOADER = """
import importlib.machinery, types
class OldLoader:
    def load_module(self, name):
        sys.modules[name] = module = types.ModuleType(name)
        module.loader = True
        return module
class Finder:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name.startswith("rl_zoo3."): return importlib.machinery.ModuleSpec(name, OldLoader())
sys.meta_path.insert(1, Finder)
"""


@pytest.mark.parametrize("loader", [READ_ONLY_LOADER, OLD_LOADER], ids=["read-only", "without exec_module"])
def test_a_loader_of_another_kind_gets_each_seam_once_too(rl_zoo, loader):
    assert import_all(rl_zoo, loader) == EXPECTED


def test_the_error_of_another_finder_is_the_one_that_the_import_ends_with(rl_zoo):
    code = f"""
import sys
sys.path[:0] = [{str(PROJECT)!r}, {str(rl_zoo)!r}]
import sb3_ext._autoload
class Finder:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name == "rl_zoo3.utils": raise ImportError("not on this machine")
sys.meta_path.insert(1, Finder)
try:
    import rl_zoo3.utils
except ImportError as error:
    print(error)
"""
    result = run("-c", code)
    assert (result.stdout, result.stderr) == ("not on this machine\n", "")


def test_a_package_that_is_gone_costs_one_line_and_no_traceback_even_where_warnings_are_errors(tmp_path):
    (tmp_path / "sb3_ext_autoload.pth").write_text((PROJECT / "sb3_ext_autoload.pth").read_text())
    result = run("-I", "-W", "error", "-c", f"import site; site.addsitedir({str(tmp_path)!r})")
    assert result.returncode == 0
    (line,) = result.stderr.splitlines()
    assert line.startswith("sb3-ext is not loaded into RL Zoo: ") and "SB3_EXT_AUTOLOAD=0" in line


@pytest.mark.parametrize("first", ["zoo.env_factory", "zoo.config.check"])
def test_a_process_that_imports_a_part_of_ours_first_can_plug_into_rl_zoo(first):
    code = f"import sb3_ext._autoload, sb3_ext.{first}, rl_zoo3.train"
    result = subprocess.run([sys.executable, "-c", code], cwd=PROJECT, capture_output=True, text=True)
    assert result.returncode == 0 and "could not plug into" not in result.stderr


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        ("", "5000"),
        ("import os; os.environ['GOMP_SPINCOUNT'] = '7'", "7"),
        ("import os; os.environ['OMP_WAIT_POLICY'] = 'active'", None),
        ("sys.modules['torch'] = sys", None),  # it has read its settings
    ],
)
def test_torchs_threads_are_told_to_wait_less_and_the_users_setting_comes_first(rl_zoo, before, expected):
    import_all(rl_zoo, before + f"\nimport rl_zoo3.utils, os; assert os.environ.get('GOMP_SPINCOUNT') == {expected!r}")


@pytest.mark.parametrize("switch", ["enable", "disable"])
def test_the_garbage_collector_rests_during_an_import_and_is_then_as_before(rl_zoo, switch):
    (rl_zoo / "rl_zoo3" / "utils.py").write_text("import gc\nloader = __loader__, 0\nwas_enabled = gc.isenabled()\n")
    is_enabled = switch == "enable"
    code = f"import gc, rl_zoo3; gc.{switch}(); import rl_zoo3.utils"
    import_all(rl_zoo, f"{code}; assert not rl_zoo3.utils.was_enabled; assert gc.isenabled() is {is_enabled}")
