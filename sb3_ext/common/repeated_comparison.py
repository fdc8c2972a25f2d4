"""Decides whether another way than the usual one is worth it: by several comparisons, since the machine may be busy."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["wins_clearly"]

#: So many wins decide for the other way
_WINS = 5


def wins_clearly(compare: Callable[[], bool], losses_allowed: int = 1) -> bool:
    """
    :param compare: measures both ways, one right after the other, because the machine's speed changes all the time;
        returns whether the other way was faster, by as much as it should be
    :param losses_allowed: how many comparisons the other way may lose
    """
    wins = losses = 0
    while wins < _WINS and losses <= losses_allowed:
        if compare():
            wins += 1
        else:
            losses += 1
    return wins == _WINS
