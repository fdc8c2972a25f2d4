"""A process that trains for a study, one training after the other: see :class:`sb3_ext.tune.local_pool.LocalPool`."""

import gc
import os
import signal
import threading
from contextlib import suppress
from multiprocessing.connection import Connection

from sb3_ext.common.usage_error import UsageError
from sb3_ext.runs.processes.child import end_cleanly, look_after_parent
from sb3_ext.zoo.trial_training import Point, train_trial

__all__ = ["serve"]


def serve(connection: int, parent: int) -> None:
    """
    Read trainings from the pipe and answer each with :class:`Point` s, after which a boolean says whether to go on,
    and at last with its :class:`Curve`, or the text of a mistake.
    """
    os.set_inheritable(connection, False)
    threading.Thread(target=look_after_parent, args=(parent, connection), daemon=True).start()
    signal.signal(signal.SIGTERM, end_cleanly)
    pipe = Connection(connection)

    def on_point(point: Point) -> bool:
        pipe.send(point)
        return pipe.recv()

    import sb3_ext.zoo.trial_manager  # noqa: F401  takes seconds, and is needed once

    # There is garbage after each training, and looking for it among the libraries' objects would take longest
    gc.collect()
    gc.freeze()
    with suppress(EOFError, OSError):  # the parent is gone
        while True:
            training = pipe.recv()
            try:
                pipe.send(train_trial(training, on_point))
            except UsageError as error:
                pipe.send(str(error))
