"""How `mutants.py` runs tests: in a fork that sees a copy of the project, with a pytest plugin."""

from __future__ import annotations

import compileall
import importlib
import os
import resource
import shutil
import signal
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

__all__ = ["Chosen", "Tracer", "make_copy", "run_forked", "run_pytest"]

ROOT = Path(__file__).resolve().parents[2]
#: A mutant that fills the memory should not end the others
_MEMORY = 12 << 30


def make_copy(folder: Path) -> Path:
    """:return: a copy of the project, with its links as links"""
    names = (".git", ".venv", "logs", "wandb", "__pycache__", ".*_cache", ".hypothesis", "*.egg-info")
    shutil.copytree(ROOT, folder, symlinks=True, ignore=shutil.ignore_patterns(*names))
    for package in ("sb3_ext", "wrappers", "callbacks"):
        compileall.compile_dir(folder / package, quiet=1)
    return folder


def run_forked(copy: Path, work: Callable[[], int], timeout: float) -> int | None:
    """
    Run the work in a fork that sees the copy of the project instead of the project; what it prints is in output.txt.

    :param copy: the copy
    :param work: gives an exit code
    :param timeout: seconds, after which the fork is killed
    :return: the exit code; ``None`` for one that took too long
    """
    return _wait(_fork(copy, work), timeout)


def _fork(copy: Path, work: Callable[[], int]) -> int:
    sys.stdout.flush()
    pid = os.fork()
    if pid:
        return pid
    code = 99
    try:
        os.setsid()
        output = os.open(copy / "output.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(output, 1)
        os.dup2(output, 2)
        resource.setrlimit(resource.RLIMIT_DATA, (_MEMORY, _MEMORY))
        os.chdir(copy)
        sys.path[:] = [
            str(copy),
            *(path for path in sys.path if Path(path).resolve() not in (ROOT, Path(__file__).resolve().parent)),
        ]
        os.environ.update(PYTHONPATH=str(copy), PYTHONDONTWRITEBYTECODE="1", OMP_NUM_THREADS="1")
        sys.dont_write_bytecode = True
        for name in [name for name in sys.modules if name.split(".")[0] == "sb3_ext"]:
            del sys.modules[name]
        sys.meta_path[:] = [finder for finder in sys.meta_path if getattr(finder, "__name__", "") != "RLZooFinder"]
        # Processes of multiprocessing import the main module, which they don't find
        sys.modules["__main__"] = ModuleType("__main__")
        importlib.invalidate_caches()
        code = work()
    except BaseException as error:
        print(repr(error), flush=True)
    finally:
        sys.stdout.flush()
        os._exit(code)


def _wait(pid: int, timeout: float) -> int | None:
    end = time.monotonic() + timeout
    while True:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            break
        if time.monotonic() > end:
            os.killpg(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            return None
        time.sleep(0.05)
    try:
        os.killpg(pid, signal.SIGKILL)  # what it has left behind
    except ProcessLookupError:
        pass
    return os.waitstatus_to_exitcode(status)


def run_pytest(files: list[str], plugin: Any) -> int:
    import sb3_ext._autoload  # noqa: F401  (what an interpreter does at its start)

    options = ["-x", "-q", "-p", "no:cacheprovider", "-p", "no:randomly", "--durations=0", "-m", "not slow"]
    return int(pytest.main([*options, *files], plugins=[plugin]))


class Tracer:
    """Pytest plugin that records which lines of the project each test runs, and how long it takes."""

    def __init__(self, copy: Path) -> None:
        self.tests: dict[str, dict[str, Any]] = {}
        self._copy = os.path.realpath(copy) + os.sep
        self._paths: dict[str, str | None] = {}
        self._lines: dict[str, set[int]] = defaultdict(set)

    def _path(self, filename: str) -> str | None:
        if filename not in self._paths:
            real = os.path.realpath(filename)
            ours = real.startswith(self._copy) and not real.startswith(self._copy + "tests")
            self._paths[filename] = real.removeprefix(self._copy) if ours else None
        return self._paths[filename]

    def _trace(self, frame: Any, event: str, _: Any) -> Any:
        path = self._path(frame.f_code.co_filename)
        if path is None:
            return None
        lines = self._lines[path]
        lines.add(frame.f_lineno)

        def trace_line(frame: Any, event: str, _: Any) -> Any:
            lines.add(frame.f_lineno)
            return trace_line

        return trace_line

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self._lines.clear()
        begin = time.perf_counter()
        threading.settrace(self._trace)
        sys.settrace(self._trace)
        try:
            return (yield)  # type: ignore[misc]
        finally:
            sys.settrace(None)
            threading.settrace(None)  # type: ignore[arg-type]
            lines = {path: sorted(numbers) for path, numbers in self._lines.items()}
            self.tests[item.nodeid] = {"seconds": time.perf_counter() - begin, "lines": lines}


class Chosen:
    """Pytest plugin that runs the chosen tests in the given order, and records the one that fails."""

    def __init__(self, tests: list[str], result: Path) -> None:
        self._order = {test: place for place, test in enumerate(tests)}
        self._result = result

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = sorted((i for i in items if i.nodeid in self._order), key=lambda item: self._order[item.nodeid])

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._result.write_text(report.nodeid, encoding="utf-8")

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self._result.write_text("import", encoding="utf-8")
