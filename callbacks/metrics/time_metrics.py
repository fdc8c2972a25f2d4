"""Progress, speed and remaining time of a training."""

import time
from collections.abc import Callable

__all__ = ["TimeMetrics"]

#: The remaining time is estimated from about this fraction of the steps, the latest. The first steps would mislead,
#: because they come before the first update or before ``learning_starts``.
_RECENT = 0.5


class TimeMetrics:
    """
    The metrics ``time/…`` of one call of ``learn``. Earlier steps count as progress, but not for the speed.

    :param start: timesteps at the start of the call
    :param n_envs: number of environments
    :param clock: returns seconds
    """

    def __init__(self, start: int, n_envs: int, clock: Callable[[], float] = time.perf_counter) -> None:
        self._start, self._n_envs, self._clock = start, n_envs, clock
        self._last_step, self._last_time = start, clock()
        #: A running mean that gives more weight to the latest steps
        self._seconds_a_step = 0.0

    def measure(self, step: int, total: int, closes_interval: bool) -> dict[str, float]:
        """
        :param step: current timesteps
        :param total: timesteps at the end of the training
        :param closes_interval: measure the speed since the last time
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
        # Weighted by steps, so that a pause such as an evaluation is shared by all of them
        weight = min(steps / (_RECENT * (step - self._start)), 1.0)
        self._seconds_a_step += (seconds / steps - self._seconds_a_step) * weight
        self._last_step, self._last_time = step, now
        return steps / seconds
