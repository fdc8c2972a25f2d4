"""The content of a table: the latest value of each metric, and the active alerts."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from sb3_ext.common.stateful import Stateful

__all__ = ["AlertMetric", "Cell", "TableState", "alerts_of"]

ALERT_PREFIX = "alert/"
#: Not the id of a rule
ALERT_TOTAL = "alert/total"

#: Maps the id of an alert to the metric where it is shown, if any
AlertMetric = Callable[[str], str | None]


class Cell(NamedTuple):
    value: float | str
    previous: float | str | None = None
    age: int = 0

    @property
    def is_old(self) -> bool:
        """Evaluation writes its own rows in between, so values of the row before them are not old yet."""
        return self.age > 2


class TableState(Stateful):
    """Rows have different metrics, so values that a row lacks stay as they were."""

    def __init__(self) -> None:
        self.step = 0
        self.cells: dict[str, Cell] = {}

    def add(self, step: int, values: Mapping[str, float | str]) -> None:
        self.step = step
        for name, cell in self.cells.items():
            if name not in values:
                self.cells[name] = cell._replace(age=cell.age + 1)
        for name, value in values.items():
            known = self.cells.get(name)
            self.cells[name] = Cell(value, None if known is None else known.value)

    def state(self) -> dict[str, Any]:
        return {"step": self.step, "cells": {name: tuple(cell) for name, cell in self.cells.items()}}

    def restore(self, state: Mapping[str, Any]) -> None:
        self.step = state["step"]
        self.cells = {name: Cell(*cell) for name, cell in state["cells"].items()}

    @property
    def names(self) -> list[str]:
        """The metrics with a line. Alerts are shown at their metric instead."""
        return [name for name in self.cells if name == ALERT_TOTAL or not name.startswith(ALERT_PREFIX)]

    def alerts(self, metric_of_alert: AlertMetric | None) -> dict[str, list[str]]:
        return alerts_of({name: cell.value for name, cell in self.cells.items()}, metric_of_alert)


def alerts_of(values: Mapping[str, float | str], metric_of_alert: AlertMetric | None = None) -> dict[str, list[str]]:
    """Ids of active alerts by metric; those without a metric are under the empty name."""
    on: dict[str, list[str]] = {}
    for name, value in sorted(values.items()):
        is_on = isinstance(value, (int, float)) and value > 0
        if is_on and name.startswith(ALERT_PREFIX) and name != ALERT_TOTAL:
            alert = name.removeprefix(ALERT_PREFIX)
            metric = metric_of_alert(alert) if metric_of_alert is not None else None
            on.setdefault(metric or "", []).append(alert)
    return on
