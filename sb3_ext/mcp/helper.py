"""A process for what needs torch and RL Zoo: checking configs, playing agents. It is ended if it takes too long."""

import os
import threading
from collections.abc import Callable
from typing import Any

import cloudpickle  # type: ignore[import-untyped]

from sb3_ext.common.usage_error import UsageError
from sb3_ext.runs.processes.child import ChildProcess, Outcome, answer_jobs

__all__ = ["Helper", "serve"]

#: What the process runs
serve = answer_jobs


class Helper:
    """
    Runs one job at a time. The process starts with the first job, stays for the next ones, and ends with this one.

    :param seconds: that a job may take; then the process is ended
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._lock = threading.Lock()
        self._process: ChildProcess | None = None

    def call(self, function: Callable[..., Any], *args: Any) -> Any:
        """
        :param function: of :mod:`sb3_ext.mcp.jobs`
        :raises UsageError: what it raised, or that it took too long
        """
        job = cloudpickle.dumps((function, args))
        with self._lock:
            if self._process is None or self._process.is_closed:
                self._process = ChildProcess(self, "helper process", __name__, knows_envs=False)
                self._process.call("start", cloudpickle.dumps((os.getpid, ())))  # which takes no time of the job's
            outcome, in_time = self._call(self._process, function.__name__, job)
        if outcome.error is None:
            return outcome.result
        if not in_time:
            raise UsageError(f"This took longer than {self._seconds:g} s, the limit of the server (--max-seconds).")
        kind, _, text = outcome.error.partition(": ")
        raise UsageError(text if kind in ("UsageError", "ConfigError") else outcome.error)

    def _call(self, process: ChildProcess, name: str, job: bytes) -> tuple[Outcome, bool]:
        late = threading.Event()

        def end() -> None:
            late.set()
            process.close()

        limit = threading.Timer(self._seconds, end)
        limit.start()
        try:
            return process.call(name, job), not late.is_set()
        finally:
            limit.cancel()
