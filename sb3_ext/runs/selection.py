"""Which entries of the registry are wanted, and in which order. Imports little, as the registry does."""

import fnmatch
from collections.abc import Collection, Sequence
from typing import Any

__all__ = ["SORTED_BY", "STATES", "select_runs"]

STATES = ("running", "finished", "interrupted", "failed", "killed", "unknown")
#: Fields to sort by, the highest or newest first, but names from A to Z
SORTED_BY = {
    "started": None,
    "score": True,
    "steps": True,
    "seconds": True,
    "env": False,
    "algo": False,
    "state": False,
}


def select_runs(
    entries: Sequence[dict[str, Any]],
    env: str | None = None,
    algo: str | None = None,
    states: Collection[str] | None = None,
    sort: str = "started",
) -> list[dict[str, Any]]:
    """
    :param entries: of the registry, newest first
    :param env: ``*`` matches anything, as in ``algo``
    :param states: of :data:`STATES`
    :param sort: of :data:`SORTED_BY`; runs without this value come last
    """
    found = [entry for entry in entries if _matches(entry["env"], env) and _matches(entry["algo"], algo)]
    found = [entry for entry in found if states is None or (entry["state"] or "unknown") in states]
    descending = SORTED_BY[sort]
    if descending is None:
        return found
    known = sorted((e for e in found if e[sort] is not None), key=lambda entry: entry[sort], reverse=descending)
    return known + [entry for entry in found if entry[sort] is None]


def _matches(name: str | None, wanted: str | None) -> bool:
    return wanted is None or fnmatch.fnmatch((name or "").lower(), wanted.lower())
