"""How far a training is, how fast, and how long it will take."""

from __future__ import annotations

import time
from collections.abc import Callable

__all__ = ["TimeMetrics"]

#: The time left is computed from what a step took in about this share of the steps so far, the latest. The first ones
#: would mislead: they come before the first update, or before ``learning_starts``.
_RECENT = 0.5


class TimeMetrics:
    """
    The metrics ``time/…`` of one call of ``learn``. Steps that were made before it count as progress, but not as speed.

    :param start: timesteps when it began
    :param n_envs: how many environments make a step at once
    :param clock: gives seconds
    """

    def __init__(self, start: int, n_envs: int, clock: Callable[[], float] = time.perf_counter) -> None:
        self._start, self._n_envs, self._clock = start, n_envs, clock
        self._last_step, self._last_time = start, clock()
        #: Of a step, on average; the latest count for more
        self._seconds_a_step = 0.0

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
        if self._seconds_a_step > 0.0 and total > 0:
            metrics["time/eta"] = max(total - step, 0) * self._seconds_a_step
        return metrics

    def _close_interval(self, step: int) -> float:
        now = self._clock()
        seconds, steps = max(now - self._last_time, 1e-9), step - self._last_step
        # Weighed by steps: a pause, such as an evaluation, is shared by all of them
        weight = min(steps / (_RECENT * (step - self._start)), 1.0)
        self._seconds_a_step += (seconds / steps - self._seconds_a_step) * weight
        self._last_step, self._last_time = step, now
        return steps / seconds
