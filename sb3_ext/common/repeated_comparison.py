"""Decides whether an alternative is faster by several comparisons, since the machine may be busy."""

from collections.abc import Callable

__all__ = ["wins_clearly"]

#: Wins that decide for the alternative
_WINS = 5


def wins_clearly(compare: Callable[[], bool], losses_allowed: int = 1) -> bool:
    """
    :param compare: measures both, one right after the other, because the machine's speed changes all the time; returns
        whether the alternative was faster by the required factor
    """
    wins = losses = 0
    while wins < _WINS and losses <= losses_allowed:
        if compare():
            wins += 1
        else:
            losses += 1
    return wins == _WINS
