"""Lets work that costs time be done only as often as a share of the time allows."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["TimeBudget"]


class TimeBudget:
    """
    :param share: of the time since the budget was made, from 0 to 1
    :param clock: gives seconds
    """

    def __init__(self, share: float, clock: Callable[[], float] = time.perf_counter) -> None:
        self._share, self._clock = share, clock
        self._start = clock()
        self._spent = 0.0
        self._latest = 0.0

    @property
    def allows(self) -> bool:
        """Whether the work may be done now, if it takes as long as the last time. The first time, it may."""
        if self._spent == 0.0:
            return True
        return self._spent + self._latest <= self._share * (self._clock() - self._start)

    @contextmanager
    def spending(self) -> Iterator[None]:
        """To be entered with the work."""
        start = self._clock()
        try:
            yield
        finally:
            self._latest = self._clock() - start
            self._spent += self._latest
