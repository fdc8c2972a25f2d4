"""Decides which metrics fit into a table, and in which column."""

from functools import lru_cache

from sb3_ext.metrics.catalogue import describe

__all__ = ["fit"]


@lru_cache(maxsize=8)
def fit(
    names: tuple[str, ...], height: int, n_columns: int, first: frozenset[str] = frozenset()
) -> tuple[tuple[str, ...], ...]:
    """
    The metrics in each column, in the order of ``names``. If there is too little room, those with the highest priority,
    and before all others ``first``. A column has ``height`` lines, including titles of groups.
    """
    if height < 2:
        return ()
    order = {name: index for index, name in enumerate(names)}
    by_importance = sorted(names, key=lambda name: (name not in first, describe(name).priority, order[name]))
    few, many = 0, len(names)
    while few < many:  # the largest number that fits
        middle = (few + many + 1) // 2
        if len(_fill(_kept(by_importance, middle, order), height)) <= n_columns:
            few = middle
        else:
            many = middle - 1
    kept = _kept(by_importance, few, order)
    # Columns of about the same height
    while height > 2 and len(_fill(kept, height - 1)) <= n_columns:
        height -= 1
    return tuple(tuple(column) for column in _fill(kept, height))


def _kept(by_importance: list[str], count: int, order: dict[str, int]) -> list[str]:
    return sorted(by_importance[:count], key=order.__getitem__)


def _fill(names: list[str], height: int) -> list[list[str]]:
    """A column starts with the title of its group, and each new group has one."""
    columns: list[list[str]] = []
    lines, group = height, None
    for name in names:
        own_group = describe(name).group
        needed = 1 if own_group == group else 2
        if lines + needed > height:
            columns.append([])
            lines, needed = 0, 2
        columns[-1].append(name)
        lines += needed
        group = own_group
    return columns
