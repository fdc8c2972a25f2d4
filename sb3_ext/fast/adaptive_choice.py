"""Finds out which of two options to do the same thing is faster, by trying them."""

import statistics
from collections import deque

__all__ = ["AdaptiveChoice"]

#: An option that takes this much longer is tried less often
_FAR = 1.5
_RARELY = 4
#: The second option is not tried again for now when a trial takes this much longer than the first option
_HOPELESS = 2.0


class AdaptiveChoice:
    """
    Both options are tried a few times, the first one first. After that the faster one is used. Now and then the other
    one is tried again, because the load of the machine changes; only its new times count then.

    :param trials: how often each option is tried at first, and how many of its latest times are kept
    :param again_after: uses of the faster option before the other one is tried again; four times as many when that one
        is far slower
    """

    def __init__(self, trials: int = 3, again_after: int = 25) -> None:
        self._trials, self._again_after = trials, again_after
        self._seconds: tuple[deque[float], deque[float]] = (deque(maxlen=trials), deque(maxlen=trials))
        self._uses = 0
        self._is_known = False
        self._last: int | None = None

    def choose(self) -> int:
        """:return: 0 or 1, the option to use now"""
        if not self._is_known:
            for option in (0, 1):
                if len(self._seconds[option]) < self._trials and not self._is_hopeless():
                    return option
            self._is_known = True
        slower, faster = sorted((0, 1), key=self._median, reverse=True)
        self._uses += 1
        is_far = self._median(slower) > _FAR * self._median(faster)
        if self._uses >= self._again_after * (_RARELY if is_far else 1):
            return slower
        return faster

    def _is_hopeless(self) -> bool:
        """Whether one trial is enough: on a busy machine, waiting for another process takes many times as long."""
        return bool(self._seconds[1]) and self._seconds[1][-1] > _HOPELESS * self._median(0)

    def _median(self, option: int) -> float:
        return statistics.median(self._seconds[option])

    def tell(self, option: int, seconds: float) -> None:
        """
        :param option: which one was used
        :param seconds: its time for some unit of work
        """
        if option != self._last:
            self._uses = 0
            if self._is_known:
                self._seconds[option].clear()  # measured under another load
        self._last = option
        self._seconds[option].append(seconds)
