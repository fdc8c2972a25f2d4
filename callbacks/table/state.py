"""What a table shows: the latest value of each metric, and the alerts that are on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

__all__ = ["Attribute", "Cell", "TableState", "alerts_of"]

ALERT_PREFIX = "alert/"
#: Not the id of a rule
ALERT_TOTAL = "alert/total"

#: Says at which metric an alert is shown, by its id; ``None`` where it has none
Attribute = Callable[[str], str | None]


class Cell(NamedTuple):
    """
    :param value: the latest
    :param previous: the one before; ``None`` when there was none
    :param age: rows since it came
    """

    value: float | str
    previous: float | str | None = None
    age: int = 0

    @property
    def is_old(self) -> bool:
        """Evaluation writes rows of its own in between: what the row before them had is not old yet."""
        return self.age > 2


class TableState:
    """Rows differ in what they have, evaluation writes its own: what a row does not have stays as it was."""

    def __init__(self) -> None:
        self.step = 0
        self.cells: dict[str, Cell] = {}

    def add(self, step: int, values: Mapping[str, float | str]) -> None:
        """
        :param step: timesteps
        :param values: of a row, by name
        """
        self.step = step
        for name, cell in self.cells.items():
            if name not in values:
                self.cells[name] = cell._replace(age=cell.age + 1)
        for name, value in values.items():
            known = self.cells.get(name)
            self.cells[name] = Cell(value, None if known is None else known.value)

    @property
    def names(self) -> list[str]:
        """Of the metrics that have a line; alerts are shown at those that they are about."""
        return [name for name in self.cells if name == ALERT_TOTAL or not name.startswith(ALERT_PREFIX)]

    def alerts(self, attribute: Attribute | None) -> dict[str, list[str]]:
        """
        :param attribute: says at which metric an alert is shown
        :return: as :func:`alerts_of`
        """
        values = {name: cell.value for name, cell in self.cells.items() if isinstance(cell.value, (int, float))}
        return alerts_of(values, attribute)


def alerts_of(values: Mapping[str, float], attribute: Attribute | None = None) -> dict[str, list[str]]:
    """
    :param values: of a row, by name
    :param attribute: says at which metric an alert is shown
    :return: ids of the alerts that are on, by metric; those without one under the empty name
    """
    on: dict[str, list[str]] = {}
    for name, value in sorted(values.items()):
        if name.startswith(ALERT_PREFIX) and name != ALERT_TOTAL and value > 0:
            alert = name.removeprefix(ALERT_PREFIX)
            metric = attribute(alert) if attribute is not None else None
            on.setdefault(metric or "", []).append(alert)
    return on
