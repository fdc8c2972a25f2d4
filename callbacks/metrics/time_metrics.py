"""How far a training is, how fast, and how long it will take."""

from __future__ import annotations

import time
from collections.abc import Callable

__all__ = ["TimeMetrics"]

#: The speed that the time left is computed from is that of about this share of the training so far, the latest. The
#: first steps would mislead: they come before the first update, or before ``learning_starts``.
_RECENT = 0.3


class TimeMetrics:
    """
    The metrics ``time/…`` of one call of ``learn``. Steps that were made before it count as progress, but not as speed.

    :param start: timesteps when it began
    :param n_envs: how many environments make a step at once
    :param clock: gives seconds
    """

    def __init__(self, start: int, n_envs: int, clock: Callable[[], float] = time.perf_counter) -> None:
        self._start, self._n_envs, self._clock = start, n_envs, clock
        self._start_time = clock()
        self._last_step, self._last_time = start, self._start_time
        #: Steps a second, and the latest count for more
        self._speed = 0.0

    def measure(self, step: int, total: int, closes_interval: bool) -> dict[str, float]:
        """
        :param step: timesteps now
        :param total: timesteps at the end of the training
        :param closes_interval: whether the speed is to be measured, since the last time that it was
        """
        metrics: dict[str, float] = {
            "time/vec_steps": self._start // self._n_envs + (step - self._start) // self._n_envs
        }
        if total > 0:
            metrics["time/progress"] = min(step / total, 1.0)
        if closes_interval and step > self._last_step:
            metrics["time/fps_now"] = self._close_interval(step)
        if self._speed > 0.0 and total > 0:
            metrics["time/eta"] = max(total - step, 0) / self._speed
        return metrics

    def _close_interval(self, step: int) -> float:
        now = self._clock()
        seconds = max(now - self._last_time, 1e-9)
        fps = (step - self._last_step) / seconds
        self._speed += (fps - self._speed) * min(seconds / (_RECENT * (now - self._start_time + 1e-9)), 1.0)
        self._last_step, self._last_time = step, now
        return fps
