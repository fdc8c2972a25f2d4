"""Run folders that a registry lists."""

import json
import os
import socket
import time

from sb3_ext.runs.alive import process_start
from sb3_ext.runs.registry import Registry


def facts_of(**facts):
    """Contents of ``run.json``."""
    started = time.strftime("%Y-%m-%dT%H:%M:%S%z")
    process = {"host": socket.gethostname(), "pid": os.getpid(), "process_started": process_start(os.getpid())}
    return {"state": "finished", "started": started, **process, **facts}


def add_run(log_folder, name, **facts):
    """Make a run folder, or change it, and its entry of the registry."""
    run = log_folder / name
    run.mkdir(parents=True, exist_ok=True)
    facts = facts_of(**{"id": run.name, "algo": run.parent.name, "env_id": run.name.rpartition("_")[0], **facts})
    (run / "run.json").write_text(json.dumps(facts))
    Registry(log_folder).update(run, facts)
    return run
