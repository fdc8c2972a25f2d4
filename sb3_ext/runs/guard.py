"""Runs parts that a training can do without: one that raises is reported once and switched off."""

import warnings
from collections.abc import Callable
from typing import Any, TypeVar

__all__ = ["Guard"]

T = TypeVar("T")


class Guard:
    """
    :param kind: what the warning calls the parts: ``Alert``, ``Metrics``
    """

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._off: set[str] = set()

    def run(self, name: str, compute: Callable[..., T], *args: Any) -> T | None:
        """:return: ``compute(*args)``; ``None`` when this part raises, now or earlier"""
        if name in self._off:
            return None
        try:
            return compute(*args)
        # A rule or a metric may raise anything, and training must go on
        except Exception as error:
            self._off.add(name)
            warnings.warn(
                f"{self._kind} {name} raised {type(error).__name__}: {error}. It is switched off for the rest of the "
                "training, which continues.",
                stacklevel=2,
            )
            return None
