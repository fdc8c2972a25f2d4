"""Whether the process of a run still exists. A killed process can't write how its training ended."""

import socket
from collections.abc import Mapping
from typing import Any

__all__ = ["process_start", "state_of"]

#: Seconds by which two readings of the same start may differ, because the clock was set in between
_TOLERANCE = 10.0


def process_start(pid: int) -> float | None:
    """:return: seconds since the epoch; ``None`` if there is no such process"""
    import psutil

    try:
        process = psutil.Process(pid)
        return None if process.status() == psutil.STATUS_ZOMBIE else process.create_time()
    except psutil.NoSuchProcess:
        return None


def state_of(facts: Mapping[str, Any]) -> str | None:
    """
    :param facts: of ``run.json``, or of an entry of the registry
    :return: the state; ``killed`` if that is ``running`` and the process is gone, ``unknown`` if it can't be known
    """
    state = facts.get("state")
    if state != "running":
        return state
    pid, started = facts.get("pid"), facts.get("process_started")
    if not isinstance(pid, int) or not isinstance(started, int | float) or facts.get("host") != socket.gethostname():
        return "unknown"
    now = process_start(pid)
    # Another process may have got the same number
    return "running" if now is not None and abs(now - started) < _TOLERANCE else "killed"
