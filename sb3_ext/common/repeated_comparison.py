"""Decides whether an alternative to the usual way is faster, by several comparisons: the machine may be busy."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["wins_clearly"]

#: So many wins decide for the alternative
_WINS = 5


def wins_clearly(compare: Callable[[], bool], losses_allowed: int = 1) -> bool:
    """
    :param compare: measures both options, one right after the other, because the machine's speed changes all the time;
        returns whether the alternative was faster by enough
    :param losses_allowed: how many comparisons the alternative may lose
    """
    wins = losses = 0
    while wins < _WINS and losses <= losses_allowed:
        if compare():
            wins += 1
        else:
            losses += 1
    return wins == _WINS
