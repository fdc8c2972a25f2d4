"""Runs what a training can do without: one part that raises is reported once and switched off."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, TypeVar

__all__ = ["Guard"]

T = TypeVar("T")


class Guard:
    """
    :param kind: what the parts are, for the warning: ``Alert``, ``Metrics``
    """

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._off: set[str] = set()

    def run(self, name: str, compute: Callable[..., T], *args: Any) -> T | None:
        """
        :param name: of the part
        :param compute: what it computes
        :param args: for ``compute``
        :return: the result; ``None`` when the part raises, now or before
        """
        if name in self._off:
            return None
        try:
            return compute(*args)
        except Exception as error:
            self._off.add(name)
            warnings.warn(
                f"{self._kind} {name} raised {type(error).__name__}: {error}. It is switched off for the rest of the "
                "training, which goes on.",
                stacklevel=2,
            )
            return None
