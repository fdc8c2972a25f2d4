"""Mutation testing: makes small mistakes in the code, one at a time, and checks that a test fails.

python scripts/checks/mutants.py --package common --sample 35 --seed 1      # logs/mutants.jsonl, and survivors in .diff
python scripts/checks/mutants.py --survivors logs/mutants.jsonl             # try the survivors again
python scripts/checks/mutants.py --package zoo --list                       # all mutants, with their ids
python scripts/checks/mutants.py --only 53c7b6b02e                          # one

First, a package's tests run on the unchanged code: they must pass, and the script records which test covers which line
(in logs/mutants-coverage.json, until the code or the tests change). Each mutant is written into a copy of the project,
and tested in a fork of a process that has already imported torch and SB3. It runs the tests that cover the line,
fastest first, then the other tests in files that import the module or share its name. A mutant that hangs is killed.
"""

from __future__ import annotations

import argparse
import difflib
import gc
import hashlib
import importlib
import itertools
import json
import math
import os
import random
import re
import sys
import tempfile
import time
import traceback
from collections import defaultdict
from pathlib import Path
from typing import Any

from mutant_runs import ROOT, Chosen, Tracer, make_copy, run_forked, run_pytest
from mutations import Mutant, find_mutants

#: Third-party modules that take seconds to import. Not RL Zoo, which imports us.
HEAVY = ("torch", "stable_baselines3", "sb3_contrib", "gymnasium", "pandas", "matplotlib.pyplot", "optuna", "ale_py",
         "hypothesis.extra.numpy", "pydantic", "rich.live", "torch.utils.tensorboard", "yaml")  # fmt: skip
#: Each package's folder, and the tests that cover it besides those in the folder of its name
PACKAGES = {
    "common": ("sb3_ext/common", ["ppo_ext", "reinforce", "fast", "envs/test_atari.py", "test_spaces_and_saving.py"]),
    "ppo_ext": ("sb3_ext/ppo_ext", ["fast", "common/test_defaults.py", "test_spaces_and_saving.py"]),
    "reinforce": ("sb3_ext/reinforce", ["fast", "common/test_defaults.py", "test_spaces_and_saving.py"]),
    "fast": ("sb3_ext/fast", ["ppo_ext", "reinforce", "common/test_defaults.py", "test_spaces_and_saving.py"]),
    "vec_env": ("sb3_ext/vec_env", ["zoo/test_several_envs.py", "fast/test_split.py"]),
    "wrappers": ("wrappers", ["callbacks/test_curriculum_callback.py", "runs/play/test_grid.py"]),
    "metrics": ("sb3_ext/metrics", ["callbacks/metrics"]),
    "callbacks": ("callbacks", []),
    "runs": ("sb3_ext/runs", ["callbacks"]),
    "zoo": ("sb3_ext/zoo", []),
}


class Tests:
    """The tests of the packages, run once on the code as it is."""

    def __init__(self, cache: Path) -> None:
        self._cache = cache
        self._known: dict[str, Any] = json.loads(cache.read_text(encoding="utf-8")) if cache.exists() else {}

    def of_file(self, test_file: str, copy: Path) -> dict[str, dict[str, Any]]:
        """
        :param test_file: relative to the project
        :param copy: a copy of the project
        :return: of each test its seconds and the lines it runs
        """
        known = self._known.get(test_file)
        if known is None or any(_digest(copy / file) != digest for file, digest in known["files"].items()):
            known = self._known[test_file] = self._run(test_file, copy)
            self._cache.parent.mkdir(parents=True, exist_ok=True)
            self._cache.write_text(json.dumps(self._known), encoding="utf-8")
        return known["tests"]

    def _run(self, test_file: str, copy: Path) -> dict[str, Any]:
        print(f"  {test_file} on the unchanged code …", flush=True)
        result = copy / "result.json"
        result.unlink(missing_ok=True)
        code = run_forked(copy, lambda: _run_traced(copy, test_file, result), 1200)
        if code != 0:
            tail = (copy / "output.txt").read_text(errors="replace", encoding="utf-8")[-3000:]
            raise SystemExit(f"{tail}\n{test_file} fails on the unchanged code ({code}). Fix that first.")
        tests = json.loads(result.read_text(encoding="utf-8"))
        files = {test_file, "tests/conftest.py", *(path for test in tests.values() for path in test["lines"])}
        return {"files": {file: _digest(copy / file) for file in sorted(files)}, "tests": tests}


def _digest(file: Path) -> str:
    return hashlib.sha1(file.read_bytes()).hexdigest()[:16] if file.exists() else ""


def _run_traced(copy: Path, test_file: str, result: Path) -> int:
    tracer = Tracer(copy)
    code = run_pytest([test_file], tracer)
    result.write_text(json.dumps(tracer.tests), encoding="utf-8")
    return code


def test_files(copy: Path, package: str) -> list[str]:
    """:return: the files with tests that may cover a package"""
    files: list[Path] = []
    for name in (package, *PACKAGES[package][1]):
        place = copy / "tests" / name
        files += [place] if place.is_file() else sorted(place.rglob("test_*.py"))
    return [str(file.relative_to(copy)) for file in dict.fromkeys(files)]


def is_made_for(copy: Path, test_file: str, path: str) -> bool:
    """:return: whether a test file has a module's name, or imports it or from its package"""
    module = Path(path)
    package = ".".join(["sb3_ext", *module.parent.parts]).replace("sb3_ext.sb3_ext", "sb3_ext")
    text = (copy / test_file).read_text(encoding="utf-8")
    mirrors = Path(test_file).stem == f"test_{module.stem}" and module.parts[-2] in Path(test_file).parts
    imports = rf"from {package}(\.{module.stem})? import"
    # Defaults are looked at, not run
    return mirrors or Path(test_file).stem == "test_defaults" or re.search(imports, text) is not None


def try_mutant(mutant: Mutant, tests: dict[str, dict[str, Any]], copy: Path, patience: float) -> dict[str, Any]:
    """
    :param mutant: a mutant
    :param tests: what is known of the tests of its package
    :param copy: a copy of the project
    :param patience: seconds that the tests may take together; slower ones are left out
    """
    covering = {test for test, facts in tests.items() if _runs(facts["lines"], mutant)}
    made_for = {file for file in {test.split("::")[0] for test in tests} if is_made_for(copy, file, mutant.path)}
    others = [test for test in tests if test not in covering and test.split("::")[0] in made_for]
    # Coverage does not see the processes that a test starts
    chosen = sorted([*covering, *others] or tests, key=lambda test: tests[test]["seconds"])
    chosen = _within(chosen, tests, patience)
    place, result = copy / mutant.path, copy / "result.txt"
    source, when = place.read_bytes(), place.stat().st_mtime_ns
    result.unlink(missing_ok=True)
    begin = time.monotonic()
    try:
        place.write_bytes(mutant.apply(source))
        os.utime(place, (0, 0))  # of another time than what was compiled
        files = list(dict.fromkeys(test.split("::")[0] for test in chosen))
        seconds = sum(tests[test]["seconds"] for test in chosen)
        code = run_forked(copy, lambda: run_pytest(files, Chosen(chosen, result)), 60 + 5 * seconds)
    finally:
        place.write_bytes(source)
        os.utime(place, ns=(when, when))
    by = "time-out" if code is None else result.read_text(encoding="utf-8") if result.exists() else f"exit code {code}"
    return {
        "id": mutant.id,
        "path": mutant.path,
        "line": mutant.line,
        "kind": mutant.kind,
        "killed": code != 0,
        "by": by if code != 0 else f"{len(chosen)} of {len(covering)} covering tests and {len(others)} others passed",
        "seconds": round(time.monotonic() - begin, 1),
        "diff": _diff(mutant, source),
    }


def _within(chosen: list[str], tests: dict[str, dict[str, Any]], patience: float) -> list[str]:
    ends = itertools.accumulate(tests[test]["seconds"] for test in chosen)
    return [test for test, end in zip(chosen, ends, strict=True) if end <= patience] or chosen[:1]


def _runs(lines: dict[str, list[int]], mutant: Mutant) -> bool:
    return any(line in mutant.reach for line in lines.get(mutant.path, ()))


def _diff(mutant: Mutant, source: bytes) -> str:
    before, after = source.decode().splitlines(), mutant.apply(source).decode().splitlines()
    lines = difflib.unified_diff(before, after, f"{mutant.path}:{mutant.line} {mutant.id}", mutant.kind, "", "", 2, "")
    return "\n".join(lines) + "\n"


def all_mutants(copy: Path, package: str) -> list[Mutant]:
    files = sorted((copy / PACKAGES[package][0]).rglob("*.py"))
    return [mutant for file in files for mutant in find_mutants(copy, str(file.relative_to(copy)))]


def sample(copy: Path, package: str, size: int, seed: int) -> list[Mutant]:
    """:return: random mutants of a package, of different lines"""
    mutants = all_mutants(copy, package)
    random.Random(f"{package} {seed}").shuffle(mutants)
    chosen: dict[tuple[str, int], Mutant] = {}
    for mutant in mutants:
        if len(chosen) == size:
            break
        if (mutant.path, mutant.line) not in chosen and mutant.compiles((copy / mutant.path).read_bytes()):
            chosen[mutant.path, mutant.line] = mutant
    return list(chosen.values())


def run(
    work: list[tuple[str, Mutant]], tests: dict[str, dict[str, Any]], output: Path, copy: Path, patience: float
) -> None:
    """Try the mutants one after the other; their results are added to the output."""
    for package, mutant in work:
        fate = {"package": package, **try_mutant(mutant, tests[package], copy, patience)}
        with output.open("a", encoding="utf-8") as file:
            file.write(json.dumps(fate) + "\n")
        word = "killed  " if fate["killed"] else "SURVIVED"
        print(f"{word} {fate['id']} {fate['path']}:{fate['line']} ({fate['kind']}, {fate['seconds']} s)", flush=True)


def report(output: Path) -> None:
    """Print a table of what became of the mutants, and write the survivors' differences."""
    fates = {fate["id"]: fate for fate in map(json.loads, output.read_text(encoding="utf-8").splitlines())}
    by_package: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for fate in fates.values():
        by_package[fate["package"]].append(fate)
    print("\n| package | killed | mutants | % |\n|---|---|---|---|")
    for package, some in [*by_package.items(), ("all", list(fates.values()))]:
        n_killed = sum(fate["killed"] for fate in some)
        print(f"| {package} | {n_killed} | {len(some)} | {100 * n_killed / len(some):.0f} |")
    survivors = [fate["diff"] for fate in fates.values() if not fate["killed"]]
    output.with_suffix(".diff").write_text("\n".join(survivors), encoding="utf-8")
    print(f"\n{len(survivors)} survivors: {output.with_suffix('.diff')}")


def chosen_mutants(copy: Path, arguments: argparse.Namespace) -> list[tuple[str, Mutant]]:
    if not (arguments.survivors or arguments.only):
        return [(p, m) for p in arguments.package for m in sample(copy, p, arguments.sample, arguments.seed)]
    wanted = set(arguments.only)
    if arguments.survivors:
        fates = {
            fate["id"]: fate for fate in map(json.loads, arguments.survivors.read_text(encoding="utf-8").splitlines())
        }
        wanted |= {identity for identity, fate in fates.items() if not fate["killed"]}
    found = [(package, mutant) for package in PACKAGES for mutant in all_mutants(copy, package) if mutant.id in wanted]
    for identity in wanted - {mutant.id for _, mutant in found}:
        print(f"{identity} is gone: its line was changed")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--package", nargs="+", choices=PACKAGES, default=list(PACKAGES))
    parser.add_argument("--sample", type=int, default=35, help="mutants of each package")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--patience", type=float, default=math.inf, help="seconds of tests for each mutant")
    parser.add_argument("--only", nargs="+", default=[], metavar="ID")
    parser.add_argument("--survivors", type=Path, metavar="FILE", help="results of an earlier call")
    parser.add_argument("--list", action="store_true", help="list the mutants and exit")
    parser.add_argument("--output", type=Path, default=ROOT / "logs" / "mutants.jsonl")
    arguments = parser.parse_args()
    if arguments.list:
        for package in arguments.package:
            for mutant in all_mutants(ROOT, package):
                print(f"{mutant.id} {mutant.path}:{mutant.line} {mutant.kind} → {mutant.text!r}")
        return
    for name in HEAVY:
        importlib.import_module(name)
    sys.modules["torch"].set_num_threads(1)
    gc.freeze()
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        # The project may change while this runs
        copies = [make_copy(Path(folder) / str(job)) for job in range(arguments.jobs)]
        work = chosen_mutants(copies[0], arguments)
        known = Tests(ROOT / "logs" / "mutants-coverage.json")
        tests: dict[str, dict[str, Any]] = {}
        for package in dict.fromkeys(package for package, _ in work):
            tests[package] = {}
            for file in test_files(copies[0], package):
                tests[package].update(known.of_file(file, copies[0]))
        jobs = []
        for job, copy in enumerate(copies):
            part = work[job :: arguments.jobs]
            jobs.append(os.fork() or _run_job(part, tests, arguments.output, copy, arguments.patience))
        for pid in jobs:
            os.waitpid(pid, 0)
    report(arguments.output)


def _run_job(*arguments: Any) -> Any:
    try:
        run(*arguments)
    except Exception:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        os._exit(0)


if __name__ == "__main__":
    main()
