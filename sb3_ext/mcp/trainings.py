"""The trainings that clients have started: child processes, which end with the server."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sb3_ext.common.clean_text import mask_passwords, printable
from sb3_ext.common.names import nearest
from sb3_ext.common.process_start import starting_process
from sb3_ext.common.usage_error import UsageError
from sb3_ext.mcp.inside import check_inside
from sb3_ext.runs.record import read_record
from sb3_ext.runs.registry import Registry

__all__ = ["Training", "Trainings"]

#: Folder for what they print, in the log folder
_OUTPUT_FOLDER = "mcp"
#: Bytes of it that are shown
_LAST_WORDS = 1500
#: Seconds to wait for a training that is stopped, and those that it has to save what it has when the server ends
_STOP_SECONDS, _END_SECONDS = 30.0, 10.0
#: Seconds by which clocks of processes may differ
_TOLERANCE = 10.0
_SHOWN = ("total_timesteps", "seconds", "score", "best_score", "threshold", "solved", "stop_reason")


@dataclass
class Training:
    """
    :param name: for clients
    :param command: as a user would type it
    :param output: file with what it prints
    """

    name: str
    command: tuple[str, ...]
    process: subprocess.Popen[bytes]
    output: Path
    started: float = field(default_factory=time.time)
    is_stopping: bool = False

    @property
    def is_running(self) -> bool:
        return self.process.poll() is None

    def wait(self, seconds: float) -> bool:
        """:return: whether it has ended"""
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(seconds)
        return not self.is_running

    def kill(self) -> None:
        """With all processes that it has started."""
        with suppress(ProcessLookupError, PermissionError):  # all have ended; macOS says the latter
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    @property
    def last_words(self) -> str:
        with self.output.open("rb") as file:
            file.seek(max(0, self.output.stat().st_size - _LAST_WORDS))
            return printable(mask_passwords(file.read().decode(errors="replace"))).strip()


class Trainings:
    """
    :param log_folder: resolved
    :param max_processes: trainings at the same time
    """

    def __init__(self, log_folder: Path, max_processes: int) -> None:
        self._log_folder = log_folder
        self._max_processes = max_processes
        self._lock = threading.Lock()
        self._all: dict[str, Training] = {}

    def start(self, words: Sequence[str]) -> Training:
        """:param words: of the command line after ``sb3-ext``"""
        with self._lock:
            self.check_room()
            name = f"training_{len(self._all) + 1}"
            folder = self._log_folder / _OUTPUT_FOLDER
            folder.mkdir(parents=True, exist_ok=True)
            check_inside(folder, self._log_folder)
            output = folder / f"{time.strftime('%Y-%m-%d-%H%M%S')}-{os.getpid()}-{name}.log"
            command = [sys.executable, "-m", "sb3_ext.mcp.training_process", str(os.getpid()), *words]
            with output.open("xb") as file, starting_process():  # a new file: nobody can have put a link there
                process = subprocess.Popen(
                    command, stdin=subprocess.DEVNULL, stdout=file, stderr=file, start_new_session=True
                )
            self._all[name] = training = Training(name, ("sb3-ext", *words), process, output)
            return training

    def check_room(self) -> None:
        """:raises UsageError: when as many are running as may"""
        running = [name for name, training in self._all.items() if training.is_running]
        if len(running) >= self._max_processes:
            advice = f"wait for one of them, or stop it: {', '.join(running)}"
            raise UsageError(
                f"No more than {self._max_processes} trainings may run at once (--max-processes): {advice}."
            )

    def get(self, name: str) -> Training:
        if name not in self._all:
            if not self._all:
                raise UsageError(f"There is no training {name[:50]!r}: this server has started none.")
            raise UsageError(f"There is no training {name[:50]!r}: {nearest(name, self._all)}")
        return self._all[name]

    def names(self) -> list[str]:
        return list(self._all)

    def stop(self, name: str) -> Training:
        """As Ctrl-C: it saves its state, and can be resumed. The second time, it ends at once."""
        training = self.get(name)
        if not training.is_running:
            raise UsageError(f"{name} has already ended.")
        if training.is_stopping:
            training.kill()
        else:
            training.is_stopping = True
            training.process.terminate()
            training.wait(_STOP_SECONDS)
        return training

    def status(self, training: Training) -> dict[str, Any]:
        """What is known of it now, for JSON."""
        entry = self._entry(training)
        code = training.process.poll()
        status: dict[str, Any] = {"training": training.name, "exit_code": code}
        if entry is not None:
            record = read_record(self._log_folder / entry["folder"])
            scores = record.score.finite.values
            status |= {"state": entry["state"], "run": entry["folder"], "steps": record.steps}
            status |= {"rollout_score": float(scores[-1]) if len(scores) else None}
            status |= {name: entry[name] for name in _SHOWN}
        elif code is None:
            status["state"] = "starting"
        else:
            status["state"] = "stopped before it began" if code in (-signal.SIGTERM, -signal.SIGKILL) else "failed"
        if entry is None or code:  # or else the run's own files say more
            status |= {"output": training.last_words, "output_file": str(training.output)}
        return status

    def _entry(self, training: Training) -> dict[str, Any] | None:
        """Its run, which says which process it has."""
        for entry in Registry(self._log_folder).entries():
            is_new = (entry["process_started"] or 0.0) > training.started - _TOLERANCE
            if entry["pid"] == training.process.pid and is_new:
                return entry
        return None

    def close(self) -> None:
        """End all of them. They save what they have, if that takes no longer than some seconds."""
        running = [training for training in self._all.values() if training.is_running]
        for training in running:
            training.process.terminate()
        end = time.monotonic() + _END_SECONDS
        for training in running:
            if not training.wait(max(end - time.monotonic(), 0.0)):
                training.kill()
