"""Runs a command of ``sb3-ext`` for the server, and ends with it, whatever ended the server.

``python -m sb3_ext.mcp.training_process PARENT train --env …``
"""

import os
import runpy
import signal
import sys
import threading
import time

#: Seconds between two checks that the server is there
_LOOK_EVERY = 0.5
#: Seconds that a training has to save what it has
_END_SECONDS = 20.0


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(_LOOK_EVERY)
    # As if its terminal was closed. If the server has already sent SIGTERM, this is ignored: a second would end it now
    os.kill(os.getpid(), signal.SIGHUP)
    time.sleep(_END_SECONDS)
    os.killpg(0, signal.SIGKILL)


def _main() -> None:
    parent, words = int(sys.argv[1]), sys.argv[2:]
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    sys.argv, sys.orig_argv = ["sb3-ext", *words], ["sb3-ext", *words]
    runpy.run_module("sb3_ext", run_name="__main__")


if __name__ == "__main__":
    _main()
