"""Limits work to a fraction of the time."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["TimeBudget"]


class TimeBudget:
    """
    :param share: fraction of the time since the budget was created
    :param clock: returns seconds
    """

    def __init__(self, share: float, clock: Callable[[], float] = time.perf_counter) -> None:
        self._share, self._clock = share, clock
        self._start = clock()
        self._spent = 0.0
        self._latest = 0.0

    @property
    def allows(self) -> bool:
        """Whether there is time for the work, if it takes as long as last time. Always true the first time."""
        if self._spent == 0.0:
            return True
        return self._spent + self._latest <= self._share * (self._clock() - self._start)

    @contextmanager
    def spending(self) -> Iterator[None]:
        """Enter it around the work."""
        start = self._clock()
        try:
            yield
        finally:
            self._latest = self._clock() - start
            self._spent += self._latest
