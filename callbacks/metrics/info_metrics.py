"""Logs numbers from the environment's ``info``."""

import warnings
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from sb3_ext.common.stateful import Stateful
from sb3_ext.wrappers.shaping.generic import find_in_info, number_keys

__all__ = ["InfoMetrics"]

_AT_END = "_at_end"


class InfoMetrics(Stateful):
    """
    ``info/<key>`` is the mean over the steps since the last row whose info has the key. ``info/<key>_at_end`` is the
    mean over the last steps of episodes, if other steps have the key too.

    :param keys: ``a.b`` is ``info["a"]["b"]``, or ``info["a.b"]`` if it exists
    """

    state_names: ClassVar[tuple[str, ...]] = ("_totals", "_counts", "_missing", "_seen", "_has_ended")

    def __init__(self, keys: Sequence[str]) -> None:
        self._keys = tuple(keys)
        self._totals: defaultdict[str, float] = defaultdict(float)
        self._counts: Counter[str] = Counter()
        self._missing = set(keys)
        #: Numbers in the infos of ended episodes, for the warning about missing keys
        self._seen: set[str] = set()
        self._has_ended = False

    def add(self, infos: Sequence[Mapping[str, Any]], dones: np.ndarray) -> None:
        """Add one step, with an info and a done flag per environment."""
        for info, done in zip(infos, dones, strict=True):
            for key in self._keys:
                value = find_in_info(info, key)
                if value is not None:
                    self._add_value(key, value, done)
            if done and self._missing:
                self._has_ended = True
                self._seen.update(number_keys(info))

    def _add_value(self, key: str, value: Any, done: bool) -> None:
        self._missing.discard(key)
        try:
            number = float(np.asarray(value).item())
        except (TypeError, ValueError):
            self._keys = tuple(other for other in self._keys if other != key)
            warnings.warn(f"metrics: info: {key!r} is {value!r} in the info, which is not a number.", stacklevel=2)
            return
        for name in (f"info/{key}", f"info/{key}{_AT_END}") if done else (f"info/{key}",):
            self._totals[name] += number
            self._counts[name] += 1

    def take(self) -> dict[str, float]:
        """The means since the last call."""
        if self._missing and self._has_ended:
            warnings.warn(
                f"metrics: info: no step of an episode had {', '.join(map(repr, sorted(self._missing)))} in its info. "
                f"It has these numbers: {', '.join(sorted(self._seen)) or 'none'}.",
                stacklevel=2,
            )
            self._missing.clear()
        totals, counts = self._totals, self._counts
        self._totals, self._counts = defaultdict(float), Counter()
        for name in [name for name in counts if name.endswith(_AT_END)]:
            if counts[name] == counts[name.removesuffix(_AT_END)]:
                del counts[name]  # only last steps have the key, so both means are equal
        return {name: totals[name] / count for name, count in counts.items()}
