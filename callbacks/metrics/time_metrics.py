"""Progress, speed and remaining time of a training, and work that may only take a fraction of it."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar

from sb3_ext.common.stateful import Stateful

__all__ = ["TimeBudget", "TimeMetrics"]

#: The remaining time is estimated from about this fraction of the steps, the latest. The first steps would mislead,
#: because they come before the first update or before ``learning_starts``.
_RECENT = 0.5


class TimeMetrics(Stateful):
    """The metrics ``time/…`` of one ``learn``. Steps before ``start`` count as progress, but not for the speed."""

    state_names: ClassVar[tuple[str, ...]] = ("_start", "_last_step", "_seconds_a_step")

    def __init__(self, start: int, n_envs: int, clock: Callable[[], float] = time.perf_counter) -> None:
        self._start, self._n_envs, self._clock = start, n_envs, clock
        self._last_step, self._last_time = start, clock()
        #: A running mean that gives more weight to the latest steps
        self._seconds_a_step = 0.0

    def state(self) -> dict[str, Any]:
        return {**super().state(), "seconds": self._clock() - self._last_time}

    def restore(self, state: Mapping[str, Any]) -> None:
        super().restore(state)
        self._last_time = self._clock() - state["seconds"]

    def measure(self, step: int, total: int, closes_interval: bool) -> dict[str, float]:
        """``total`` timesteps are the whole training. ``closes_interval``: measure the speed since the last time."""
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


class TimeBudget:
    """Limits work to a ``share`` of the time since this object was created."""

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
