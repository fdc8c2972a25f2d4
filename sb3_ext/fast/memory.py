"""Memory that large tensors leave stays with the process, for the next ones."""

import ctypes

__all__ = ["keep_memory"]

#: Numbers of glibc's ``mallopt``, with more than any minibatch of images takes
_SETTINGS = {-3: 2**30, -1: 2**31 - 1}  # M_MMAP_THRESHOLD, M_TRIM_THRESHOLD


def keep_memory() -> None:
    """
    By default, glibc gives memory back to the system as soon as a minibatch is done, and each of its pages costs a page
    fault in the next one. Does nothing with other C libraries.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return
    for number, value in _SETTINGS.items():
        mallopt(number, value)
