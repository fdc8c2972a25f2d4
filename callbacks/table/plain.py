"""Rows as plain lines, for output that is not a terminal: files, pipes, notebooks, CI."""

import time
from collections import Counter
from collections.abc import Mapping
from functools import lru_cache
from typing import ClassVar, TextIO

from sb3_ext.callbacks.table.format import format_value
from sb3_ext.callbacks.table.state import AlertMetric, alerts_of
from sb3_ext.common.full_disk import tolerate_full_disk
from sb3_ext.common.stateful import Stateful
from sb3_ext.metrics.catalogue import catalogue, describe, ordered

__all__ = ["PlainLines", "plain_line"]


class PlainLines(Stateful):
    """
    Rows have different metrics, so a line shows the latest value of each, including those of rows without a line. A
    line with a new alert does not wait for ``every_seconds``.
    """

    state_names: ClassVar[tuple[str, ...]] = ("_values", "_alerts")

    def __init__(self, file: TextIO, every_seconds: float = 0.0, metric_of_alert: AlertMetric | None = None) -> None:
        self._file = file
        self._every_seconds = every_seconds
        self._metric_of_alert = metric_of_alert
        self._written_at = -float("inf")
        # The arguments of a line that is written when it is time
        self._waiting: tuple[int, int, dict[str, list[str]]] | None = None
        self._values: dict[str, float | str] = {}
        self._alerts: set[str] = set()

    def write(self, step: int, total: int, values: Mapping[str, float | str]) -> None:
        alerts = alerts_of(values, self._metric_of_alert)
        self._values.update(values)
        self._waiting = step, total, alerts
        ids = {rule_id for of_metric in alerts.values() for rule_id in of_metric}
        has_new, self._alerts = not ids <= self._alerts, self._alerts | ids
        if has_new or time.monotonic() - self._written_at >= self._every_seconds:
            self.flush()

    def flush(self) -> None:
        """Write the latest row, if it has not been written."""
        if self._waiting is not None:
            step, total, alerts = self._waiting
            with tolerate_full_disk(None):  # the output may be in a file
                print(plain_line(step, total, self._values, alerts), file=self._file, flush=True)
            self._waiting, self._written_at = None, time.monotonic()


def plain_line(step: int, total: int, values: Mapping[str, float | str], alerts: Mapping[str, list[str]]) -> str:
    """The step, the most important metrics, and the alerts (ids by metric, from ``alerts_of``)."""
    share = f" ({min(step / total, 1.0):.0%})" if total > 0 else ""
    parts = [f"{step:,} steps{share}"]
    for name in ordered(values):
        info = describe(name)
        if info.highlight:
            short = info.short_name if info.short_name in _unique_short_names() else name
            parts.append(f"{short} {format_value(info, values[name])}")
    found = [f"{alert} ({name})" if name else alert for name, ids in alerts.items() for alert in ids]
    if found:
        parts.append(f"ALERT {', '.join(found)}")
    return " | ".join(parts)


@lru_cache(maxsize=1)
def _unique_short_names() -> frozenset[str]:
    """Names that only one group has, except evaluation's, whose score could be mistaken for training's."""
    counts = Counter(info.short_name for info in catalogue().metrics)
    of_eval = {info.short_name for info in catalogue().metrics if info.group == "eval"}
    return frozenset(name for name, count in counts.items() if count == 1 and name not in of_eval)
