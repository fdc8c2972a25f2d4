"""Finding callbacks among those that a training was given: lists hold some, and others call some on events."""

from __future__ import annotations

from collections.abc import Iterator

from stable_baselines3.common.callbacks import BaseCallback, CallbackList, EvalCallback, EventCallback

__all__ = ["all_of"]


def all_of(callback: BaseCallback | None) -> Iterator[BaseCallback]:
    """
    :param callback: what ``learn()`` was given, such as ``self.locals["callback"]``
    :return: it, and all that it calls
    """
    if callback is None:
        return
    yield callback
    if isinstance(callback, CallbackList):
        for child in callback.callbacks:
            yield from all_of(child)
    if isinstance(callback, EventCallback):
        yield from all_of(callback.callback)
    if isinstance(callback, EvalCallback):
        yield from all_of(callback.callback_on_new_best)
