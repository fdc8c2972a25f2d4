"""Calls callbacks at each step of a rollout, and leaves out what has no effect.

A training of ours has a dozen callbacks. SB3 gives each of them the step's variables, though all share one dictionary,
and calls each of them, though most do nothing at a step.
"""

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from stable_baselines3.common.callbacks import BaseCallback, CallbackList, EventCallback

__all__ = ["StepCallbacks", "does_nothing"]

_Method = TypeVar("_Method", bound=Callable[..., Any])


def does_nothing(method: _Method) -> _Method:
    """Mark a callback's method: if both ``on_step`` and ``_on_step`` have the mark, they need not be called."""
    method.does_nothing = True  # type: ignore[attr-defined]
    return method


class StepCallbacks:
    """
    The callbacks of a rollout. Their ``n_calls`` and ``num_timesteps`` are right again after :meth:`finish`.

    :param top: the callback that ``learn`` was given
    """

    def __init__(self, top: BaseCallback) -> None:
        self._top, self.locals = top, top.locals
        callbacks = list(_flatten(top))
        idle = [callback for callback in callbacks if _is_idle(callback)]
        # One of them is called for all: it looks for an interrupt
        self._left_out = [*(callback for callback in _lists(top)), *idle[1:]]
        self._called = [callback for callback in callbacks if not any(callback is other for other in idle[1:])]
        self._apart = [callback for callback in callbacks if not _shares(callback, self.locals)]
        self._n_steps = 0

    def on_step(self) -> bool:
        """Call those that do something. :return: ``False`` if one of them ends the training"""
        self._n_steps += 1
        for callback in self._apart:
            callback.update_locals(self.locals)
        goes_on = True
        for callback in self._called:
            goes_on = callback.on_step() and goes_on
        return goes_on

    def finish(self) -> None:
        """Call it after the last step, and when the rollout is interrupted."""
        for callback in self._left_out:
            callback.n_calls += self._n_steps
            callback.num_timesteps = callback.model.num_timesteps
        self._n_steps = 0


def _flatten(callback: BaseCallback) -> Iterator[BaseCallback]:
    if type(callback) is not CallbackList:
        yield callback
        return
    for child in callback.callbacks:
        yield from _flatten(child)


def _lists(callback: BaseCallback) -> Iterator[BaseCallback]:
    if type(callback) is CallbackList:
        yield callback
        for child in callback.callbacks:
            yield from _lists(child)


def _is_idle(callback: BaseCallback) -> bool:
    return all(getattr(method, "does_nothing", False) for method in (callback.on_step, callback._on_step))


def _shares(callback: BaseCallback, variables: dict[str, Any]) -> bool:
    """Whether a callback, with all it calls, sees these variables."""
    is_stock = type(callback).update_locals is BaseCallback.update_locals
    has_child = isinstance(callback, EventCallback) and callback.callback is not None
    knows_children = isinstance(callback, EventCallback) or (
        type(callback).update_child_locals is BaseCallback.update_child_locals
    )
    return callback.locals is variables and is_stock and knows_children and not has_child
