"""Decides whether another way than the usual one is worth it: by several comparisons, since the machine may be busy."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["wins_clearly"]

#: So many wins decide for the other way, unless it loses so many times before
_WINS, _LOSSES = 5, 2


def wins_clearly(compare: Callable[[], bool]) -> bool:
    """
    :param compare: measures both ways, one right after the other, because the machine's speed changes all the time;
        returns whether the other way was faster, by as much as it should be
    """
    wins = losses = 0
    while wins < _WINS and losses < _LOSSES:
        if compare():
            wins += 1
        else:
            losses += 1
    return wins == _WINS
