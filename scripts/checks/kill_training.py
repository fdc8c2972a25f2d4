"""Trainings for ``kills.py``: their configs, and processes that run RL Zoo's command without the wait for imports."""

from __future__ import annotations

import atexit
import ctypes
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path

import psutil
import yaml

__all__ = ["VARIANTS", "Training", "write_config"]

_PR_SET_PDEATHSIG = 1
_SMALL = {"n_envs": 4, "n_steps": 64, "batch_size": 128, "n_epochs": 2, "n_timesteps": 1e7, "policy": "MlpPolicy"}
_EXT = {
    "threads": 1,
    "checkpoints": {"every": 512, "keep": 3, "table": False, "video": False},
    "evaluation": {"every": 1024, "episodes": 1},
    "report": {"plots": False},
}
#: Environment, hyperparameters and options of each variant. Something is written every few milliseconds
VARIANTS = {
    "plain": ("CartPole-v1", {}, {}),
    "normalize": ("CartPole-v1", {"normalize": True}, {}),
    "multicore": ("CartPole-v1", {"normalize": True, "fast": "alone"}, {"native": False, "vec_env": "multicore"}),
    "subproc": ("CartPole-v1", {"n_envs": 2, "fast": "alone"}, {"native": False, "vec_env": "subproc"}),
    "objects": ("Pong-v5_objects", {"n_envs": 2}, {"native": False, "vec_env": "dummy"}),
    "process": ("CartPole-v1", {"normalize": True}, {"evaluation": {"every": 1024, "episodes": 1, "process": True}}),
    "wandb": ("CartPole-v1", {}, {"tracking": {"mode": "offline", "project": "kills", "upload_mb": 0}}),
}


def write_config(variant: str, folder: Path) -> list[str]:
    """:return: the command line of a training, which takes hours"""
    env_id, hyperparams, ext = VARIANTS[variant]
    section = {**_SMALL, "policy_kwargs": {"net_arch": [16]}, **hyperparams, "ext": {**_EXT, **ext}}
    config = folder / "config.yml"
    config.write_text(yaml.safe_dump({env_id: section}), encoding="utf-8")
    words = ["--algo", "ppo_ext", "--env", env_id, "--conf-file", str(config), "-f", str(folder / "logs")]
    return [*words, "--seed", "1", "--num-threads", "1"]


class Training:
    """
    A process of its own session, as started in a terminal.

    :param command: what it calls
    :param arguments: its command line, beginning with the name of the program
    :param output: file for what it prints
    """

    def __init__(self, command: Callable[[], object], arguments: Sequence[str], folder: Path, output: str) -> None:
        self.output = folder / output
        sys.stdout.flush()
        self.pid = os.fork()
        if self.pid == 0:
            _run(command, arguments, folder, self.output)
        self.exit_code: int | None = None

    def wait(self, seconds: float) -> bool:
        """:return: whether it has ended by then"""
        end = time.monotonic() + seconds
        while self.exit_code is None and time.monotonic() < end:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.exit_code = os.waitstatus_to_exitcode(status)
            else:
                time.sleep(0.01)
        return self.exit_code is not None

    def wait_for(self, condition: Callable[[], bool], seconds: float = 150.0) -> bool:
        """:return: whether something happens before the process ends"""
        end = time.monotonic() + seconds
        while time.monotonic() < end and not self.wait(0.01):
            if condition():
                return True
        return False

    def send(self, number: int, group: bool = False) -> None:
        if self.exit_code is None:
            (os.killpg if group else os.kill)(self.pid, number)

    def descendants(self) -> list[psutil.Process]:
        try:
            return psutil.Process(self.pid).children(recursive=True)
        except psutil.NoSuchProcess:
            return []

    def left_over(self, seconds: float) -> list[str]:
        """Command lines of the processes that are still there, after some time to notice that the training is gone."""
        end = time.monotonic() + seconds
        while (found := self._of_session()) and time.monotonic() < end:
            time.sleep(0.05)
        return found

    def _of_session(self) -> list[str]:
        found = []
        for process in psutil.process_iter():
            try:
                mine = os.getsid(process.pid) == self.pid or process.environ().get("KILLED_TRAINING") == str(
                    self.output
                )
                if mine and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(" ".join(process.cmdline())[:100])
            except (psutil.Error, ProcessLookupError):
                continue
        return found


def _run(command: Callable[[], object], arguments: Sequence[str], folder: Path, output: Path) -> None:
    """In the new process: what the interpreter does around a program. Does not return."""
    code = 1
    try:
        os.setsid()
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)  # don't outlive this script
        file = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        for number in (1, 2):
            os.dup2(file, number)
        os.environ.update(KILLED_TRAINING=str(output), WANDB_SILENT="true", WANDB_DIR=str(folder))
        os.chdir(folder)
        sys.argv, sys.orig_argv = list(arguments), [sys.executable, "-m", *arguments]
        try:
            command()
            code = 0
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else int(end.code is not None)
            if isinstance(end.code, str):
                print(end.code, file=sys.stderr)
        except BaseException:
            traceback.print_exc()
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code)
