"""Finds out which of two ways to do the same thing is faster, by doing it."""

from __future__ import annotations

import statistics
from collections import deque

__all__ = ["FasterOf"]

#: A way that takes this much longer is tried less often
_FAR = 1.5
_RARELY = 4
#: The second way is not tried again for now when a trial takes this much longer than the first way
_HOPELESS = 2.0


class FasterOf:
    """
    Both ways are tried a few times, the first one first. After that the faster one is taken; now and then the other one
    is tried again, because the machine may have become busier or idler. What that takes then counts, not what it took
    before.

    :param trials: how often each way is tried at first, and how many of its latest times are kept
    :param again_after: uses of the faster way before the other one is tried again; four times as many when that one is
        far slower
    """

    def __init__(self, trials: int = 3, again_after: int = 25) -> None:
        self._trials, self._again_after = trials, again_after
        self._seconds: tuple[deque[float], deque[float]] = (deque(maxlen=trials), deque(maxlen=trials))
        self._uses = 0
        self._is_known = False
        self._last: int | None = None

    def choose(self) -> int:
        """:return: 0 or 1, the way to take now"""
        if not self._is_known:
            for way in (0, 1):
                if len(self._seconds[way]) < self._trials and not self._is_hopeless():
                    return way
            self._is_known = True
        slower, faster = sorted((0, 1), key=self._median, reverse=True)
        self._uses += 1
        is_far = self._median(slower) > _FAR * self._median(faster)
        if self._uses >= self._again_after * (_RARELY if is_far else 1):
            return slower
        return faster

    def _is_hopeless(self) -> bool:
        """Whether one trial says it all: on a busy machine, waiting for another process takes many times as long."""
        return bool(self._seconds[1]) and self._seconds[1][-1] > _HOPELESS * self._median(0)

    def _median(self, way: int) -> float:
        return statistics.median(self._seconds[way])

    def tell(self, way: int, seconds: float) -> None:
        """
        :param way: which one was taken
        :param seconds: that it took for some unit of work
        """
        if way != self._last:
            self._uses = 0
            if self._is_known:
                self._seconds[way].clear()  # the machine was another one
        self._last = way
        self._seconds[way].append(seconds)
