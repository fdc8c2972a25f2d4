"""Kills trainings at random moments in random ways, and checks that each can be resumed.

    python scripts/checks/kills.py --n 100

Each case is a training of RL Zoo's command with its seed: it decides what is trained, how it is killed and when. To
repeat a failure: ``--seed SEED --n 1 --kinds KIND``. Trainings are forks of this process, which has imported
everything. A full disk is a small tmpfs, in a mount namespace of this script (Linux, ``unshare``).
"""

from __future__ import annotations

import os

os.environ["OMP_NUM_THREADS"] = "1"

import argparse
import contextlib
import io
import multiprocessing
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import NamedTuple

import psutil
import rl_zoo3.train
import torch as th
import wandb  # noqa: F401  imported here, so that no training has to wait for it
from kill_checks import check_folder, check_resumed, rollout_steps
from kill_training import Training, write_config

from sb3_ext.cli.main import main as sb3_ext

#: Seconds that an interrupted training may take to end, on a busy machine
_TO_END = 30.0
#: Megabytes of the disk that gets full
_DISK = 32
_ANY = ["plain"] * 3 + ["normalize"] * 3 + ["multicore"] * 2 + ["subproc", "objects", "process", "wandb"]


class Result(NamedTuple):
    kind: str
    variant: str
    seed: int
    outcome: str
    problems: list[str]


class Case:
    """One training, and its end. ``folder`` is empty."""

    def __init__(self, kind: str, seed: int, folder: Path) -> None:
        self.kind, self.seed, self.folder = kind, seed, folder
        self.random = random.Random(f"{kind}-{seed}")
        self.variant = self.random.choice(
            {"worker": [*["multicore"] * 4, "subproc"], "evaluation": ["process"]}.get(kind, _ANY)
        )
        self.problems: list[str] = []

    def run(self) -> Result:
        disk = self.folder / "disk"
        disk.mkdir()
        if self.kind == "disk":
            subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={_DISK}m", "tmpfs", disk], check=True)
        try:
            outcome = self._kill_and_resume(disk)
        # Whatever a broken file raises is a finding
        except Exception:
            outcome, _ = "failed", self.problems.append(traceback.format_exc())
        finally:
            if self.kind == "disk":
                subprocess.run(["umount", "--lazy", disk], check=True)
        return Result(self.kind, self.variant, self.seed, "failed" if self.problems else outcome, self.problems)

    def _kill_and_resume(self, disk: Path) -> str:
        arguments = ["rl_zoo3.train", *write_config(self.variant, disk)]
        training = Training(rl_zoo3.train.train, arguments, self.folder, "train.txt")
        is_early = self.kind in ("sigkill", "sigterm", "ctrl-c") and self.random.random() < 0.1
        logs = disk / "logs"
        if not is_early and not training.wait_for(lambda: any(rollout_steps(run) for run in logs.glob("*/*_1"))):
            self.problems.append(
                f"it did not train: exit code {training.exit_code}\n{training.output.read_text(encoding='utf-8')}"
            )
            training.send(signal.SIGKILL, group=True)
            return "failed"
        time.sleep(self.random.uniform(0, 1.5))
        KINDS[self.kind](self, training, disk)
        self._wait(training)
        runs = [path for path in logs.glob("ppo_ext/*_1") if (path / "run.json").exists()]
        if not runs:
            return "no run yet"
        self.problems += check_folder(logs, runs[0])
        return self._resume(runs[0])

    def _resume(self, run: Path) -> str:
        before = max(rollout_steps(run), default=0)
        training = Training(lambda: sys.exit(sb3_ext(["resume", str(run)])), ["sb3-ext"], self.folder, "resume.txt")
        if not training.wait_for(lambda: max(rollout_steps(run), default=0) > before + 1000):
            said = training.output.read_text(encoding="utf-8")
            # The first state is written when the first rollout starts
            if training.exit_code == 2 and before == 0 and "There is nothing in" in said:
                return "nothing saved yet"
            self.problems.append(f"it was not resumed: exit code {training.exit_code}\n{said}")
            training.send(signal.SIGKILL, group=True)
            return "failed"
        training.send(signal.SIGTERM)
        self._wait(training)
        self.problems += [*check_folder(run.parent.parent, run), *check_resumed(run, before)]
        return "resumed"

    def _wait(self, training: Training) -> None:
        if not training.wait(_TO_END):
            said = training.output.read_text(encoding="utf-8")
            swallowed = said[max(said.find("KeyboardInterrupt") - 3000, 0) :][:3500]
            self.problems.append(f"{training.output.name}: it did not end within {_TO_END:g} s:\n{swallowed}")
            training.send(signal.SIGKILL, group=True)
            training.wait(5.0)
        left = training.left_over(5.0)
        if left:
            self.problems.append(f"processes are left: {left}")

    def expect_code(self, training: Training, *codes: int) -> None:
        training.wait(_TO_END)
        if training.exit_code not in codes:
            said = training.output.read_text(encoding="utf-8")[-3000:]
            self.problems.append(f"exit code {training.exit_code}, expected {' or '.join(map(str, codes))}:\n{said}")

    def expect_said(self, training: Training, *texts: str) -> None:
        said = training.output.read_text(encoding="utf-8")
        for text in texts:
            if text not in said:
                self.problems.append(f"it did not say {text!r}:\n{said[-3000:]}")
        # What is raised while Python forks is ignored, and raised again at the next step
        if "Traceback" in said and "Exception ignored" not in said:
            self.problems.append(f"there is a traceback:\n{said[-3000:]}")

    def expect_progress(self, training: Training, disk: Path) -> None:
        """The training goes on."""
        (run,) = disk.glob("logs/ppo_ext/*_1")
        before = rollout_steps(run)[-1]
        if not training.wait_for(lambda: rollout_steps(run)[-1] > before + 1000):
            self.problems.append(f"training did not go on:\n{training.output.read_text(encoding='utf-8')[-3000:]}")


def _by(number: int, code: int) -> Callable[[Case, Training, Path], None]:
    def kill(case: Case, training: Training, disk: Path) -> None:
        has_begun = "Environments:" in training.output.read_text(encoding="utf-8")
        training.send(number, group=number == signal.SIGINT)
        if has_begun and any(rollout_steps(run) for run in disk.glob("logs/ppo_ext/*_1")):
            case.expect_code(training, code)
            if number != signal.SIGKILL:
                case.expect_said(training, "continue with: sb3-ext resume")

    return kill


def _ctrl_c_twice(case: Case, training: Training, disk: Path) -> None:
    training.send(signal.SIGINT, group=True)
    time.sleep(case.random.uniform(0.0, 0.4))
    if not training.wait(0.0):
        training.send(signal.SIGINT, group=True)
    started = time.monotonic()
    case.expect_code(training, 0, -signal.SIGINT)
    if time.monotonic() - started > 5.0:
        case.problems.append("it did not end at once")


def _full_disk(case: Case, training: Training, disk: Path) -> None:
    with (disk / "filler").open("wb", buffering=0) as filler:
        try:
            while filler.write(bytes(4096)):
                pass
        except OSError:
            pass
    if training.wait(case.random.uniform(0.5, 2.0)):
        case.problems.append(
            f"the training ended: {training.exit_code}\n{training.output.read_text(encoding='utf-8')[-3000:]}"
        )
    if case.random.random() < 0.5:
        (disk / "filler").unlink()
        case.expect_progress(training, disk)
    if case.variant != "process":  # which may wait for its first evaluation all the time
        case.expect_said(training, "No space left on device")
    training.send(number := case.random.choice([signal.SIGTERM, signal.SIGKILL]))
    training.wait(_TO_END)
    (disk / "filler").unlink(missing_ok=True)
    if number == signal.SIGTERM:
        case.expect_said(training)


def _kill_worker(case: Case, training: Training, disk: Path) -> None:
    # All children but the helpers of multiprocessing; those of a fork server are its children
    helpers = ("resource_tracker", "processes.child")
    workers = [p for p in training.descendants() if not p.children() and not _is_any(p, helpers)]
    case.random.choice(workers).send_signal(
        number := case.random.choice([signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV])
    )
    case.expect_code(training, 1)
    case.expect_said(training, "worker process", number.name, "continue with: sb3-ext resume")


def _kill_evaluation(case: Case, training: Training, disk: Path) -> None:
    if case.random.random() < 0.5:
        training.wait_for(lambda: "Eval num_timesteps" in training.output.read_text(encoding="utf-8"))
    found = [process for process in training.descendants() if _is_any(process, ["processes.child"])]
    if not found:
        case.problems.append(f"there is no evaluation process: {training.output.read_text(encoding='utf-8')[-3000:]}")
    for process in found:
        process.kill()
    case.expect_progress(training, disk)
    training.send(signal.SIGTERM)
    case.expect_code(training, 128 + signal.SIGTERM)
    case.expect_said(training, "continue with: sb3-ext resume", "evaluation process")


def _is_any(process: psutil.Process, names: tuple[str, ...] | list[str]) -> bool:
    return any(name in " ".join(process.cmdline()) for name in names)


KINDS: dict[str, Callable[[Case, Training, Path], None]] = {
    "sigkill": _by(signal.SIGKILL, -signal.SIGKILL),
    "sigterm": _by(signal.SIGTERM, 128 + signal.SIGTERM),
    "sighup": _by(signal.SIGHUP, 128 + signal.SIGHUP),
    "ctrl-c": _by(signal.SIGINT, 0),
    "twice": _ctrl_c_twice,
    "disk": _full_disk,
    "worker": _kill_worker,
    "evaluation": _kill_evaluation,
}


def run_case(kind: str, seed: int) -> Result:
    folder = Path(tempfile.mkdtemp(prefix="kills-"))
    try:
        return Case(kind, seed, folder).run()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _warm_up() -> None:
    """A short training imports what is imported late."""
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        sys.argv = ["rl_zoo3.train", *write_config("normalize", Path(folder)), "-n", "1100"]
        rl_zoo3.train.train()


def _enter_namespace() -> bool:
    """:return: whether a disk can be mounted; starts this program again, where that is possible"""
    if os.environ.get("KILLS_NAMESPACE"):
        return True
    if subprocess.run(["unshare", "-rm", "true"], stderr=subprocess.DEVNULL, check=False).returncode:
        return False
    os.environ["KILLS_NAMESPACE"] = "1"
    os.execvp("unshare", ["unshare", "-rm", sys.executable, *sys.argv])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n", type=int, default=100, help="number of kills")
    parser.add_argument("--seed", type=int, default=0, help="seed of the first")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS), help="how to kill, in turn")
    parser.add_argument("--jobs", type=int, default=2, help="trainings at the same time")
    args = parser.parse_args()
    kinds = [kind for kind in args.kinds if kind != "disk" or shutil.which("unshare")]
    if "disk" in kinds and not _enter_namespace():
        print("No full disks: this user can't mount one.")
        kinds.remove("disk")
    th.set_num_threads(1)
    _warm_up()
    started = time.monotonic()
    cases = [(kinds[number % len(kinds)], args.seed + number) for number in range(args.n)]
    results: list[Result] = []
    with ProcessPoolExecutor(args.jobs, multiprocessing.get_context("fork")) as pool:
        for result in pool.map(run_case, *zip(*cases, strict=True)):
            results.append(result)
            print(
                f"{len(results)}: {result.kind} of {result.variant}, seed {result.seed}: {result.outcome}", flush=True
            )
            for problem in result.problems:
                print(
                    f"\n{result.kind} of {result.variant}, --seed {result.seed} --kinds {result.kind} --n 1: {problem}"
                )
    counts = Counter((result.kind, result.outcome) for result in results)
    outcomes = sorted({outcome for _, outcome in counts})
    print(f"\n| kind | {' | '.join(outcomes)} |\n|---|{'---|' * len(outcomes)}")
    for kind in kinds:
        print(f"| {kind} | {' | '.join(str(counts[kind, outcome]) for outcome in outcomes)} |")
    n_failed = sum(result.outcome == "failed" for result in results)
    print(f"\n{len(results)} kills in {time.monotonic() - started:.0f} s, {n_failed} failed.")
    sys.exit(n_failed > 0)


if __name__ == "__main__":
    main()
