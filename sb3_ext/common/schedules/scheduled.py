"""How an algorithm follows schedules for its numbers.

SB3's algorithms read ``self.ent_coef``, ``self.gamma`` and so on as plain floats, so that is what they stay: the
schedule is kept beside them, and before each rollout and each update the floats are set to its value at that timestep.
What SB3 takes as a schedule itself (``learning_rate``, ``clip_range``, ``clip_range_vf``) is handed to it as one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, ClassVar, Self

import torch as th
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.utils import FloatSchedule

from sb3_ext.common.schedules.kinds import Constant, Schedule
from sb3_ext.common.schedules.parsing import parse_schedule

__all__ = ["ScheduledAlgorithm"]

#: May be left out
_OPTIONAL = ("target_kl",)
_SCHEDULES_OF_SB3 = ("learning_rate", "clip_range", "clip_range_vf")


class ScheduledAlgorithm(BaseAlgorithm):
    """Mixin, before the SB3 class in the bases."""

    #: Parameters that SB3 takes as floats, and this class as schedules too.
    schedulable: ClassVar[tuple[str, ...]] = ()

    #: The schedules of the parameters that have one.
    schedules: dict[str, Callable[[float], float]]

    @classmethod
    def load(cls, path: Any, *args: Any, **kwargs: Any) -> Self:
        # A number given here takes the place of a saved schedule; as an object it can be told from the schedule's value
        for name in set(cls.schedulable) & set(kwargs):
            if kwargs[name] is not None:
                kwargs[name] = parse_schedule(name, kwargs[name])
        return super().load(path, *args, **kwargs)

    def _setup_model(self) -> None:
        self._read_schedules()
        super()._setup_model()  # type: ignore[safe-super]

    def _read_schedules(self) -> None:
        """Turn what was written into schedules; what is a number stays one."""
        self.schedules = dict(self.__dict__.get("schedules", {}))
        #: What the schedules set last: another value was set by someone else, and takes a schedule's place
        self._scheduled: dict[str, float] = dict(self.__dict__.get("_scheduled", {}))
        for name in self.schedulable:
            written = getattr(self, name)
            if written is None and name in _OPTIONAL:
                self.schedules.pop(name, None)
            elif name not in self.schedules or written != self._scheduled.get(name):
                self._read_schedule(name, written)
        for name in _SCHEDULES_OF_SB3:
            written = getattr(self, name, None)
            if isinstance(written, (str, dict, list, tuple)):
                schedule = parse_schedule(name, written)
                setattr(self, name, schedule.value if isinstance(schedule, Constant) else schedule)

    def _read_schedule(self, name: str, written: Any) -> None:
        schedule = parse_schedule(name, written)
        if isinstance(schedule, Constant):
            self.schedules.pop(name, None)
        else:
            self.schedules[name] = schedule
        self._set_scheduled(name, float(schedule(1.0)))

    def _initial(self, name: str) -> Any:
        """What a parameter is at the start of training, wherever its schedule is now."""
        return self.schedules[name](1.0) if name in self.schedules else getattr(self, name)

    def _setup_learn(self, *args: Any, **kwargs: Any) -> Any:
        self._read_schedules()  # values may have been set on the model since
        result = super()._setup_learn(*args, **kwargs)
        self._update_current_progress_remaining(self.num_timesteps, self._total_timesteps)
        return result

    def _update_current_progress_remaining(self, num_timesteps: int, total_timesteps: int) -> None:
        super()._update_current_progress_remaining(num_timesteps, total_timesteps)
        self._read_schedules()
        for name, schedule in self._running_schedules():
            if isinstance(schedule, Schedule):
                schedule.bind(total_timesteps)
            if name in self.schedules:
                self._set_scheduled(name, float(schedule(self._current_progress_remaining)))

    def _update_learning_rate(self, optimizers: list[th.optim.Optimizer] | th.optim.Optimizer) -> None:
        super()._update_learning_rate(optimizers)
        # Each update starts with this: what is logged here is in one table with the other numbers of the update
        for name, schedule in self._running_schedules():
            self.logger.record(f"schedule/{name}", float(schedule(self._current_progress_remaining)))

    def _set_scheduled(self, name: str, value: float) -> None:
        setattr(self, name, value)
        self._scheduled[name] = value
        # The buffer computes advantages with its own copies of these
        buffer = getattr(self, "rollout_buffer", None)
        if name in ("gamma", "gae_lambda") and buffer is not None:
            setattr(buffer, name, value)

    def _running_schedules(self) -> Iterator[tuple[str, Callable[[float], float]]]:
        """Everything that changes over this training, by name."""
        yield from self.schedules.items()
        lr_schedule = {"learning_rate": getattr(self, "lr_schedule", None)}
        for name, schedule in {**{n: getattr(self, n, None) for n in _SCHEDULES_OF_SB3}, **lr_schedule}.items():
            inner = schedule.value_schedule if isinstance(schedule, FloatSchedule) else schedule
            if isinstance(inner, Schedule):
                yield name, inner
