"""What an update does about the KL divergence: a limit with rollback, and a learning rate that adapts to it."""

from collections.abc import Callable

from sb3_ext.common.fast_path import KLLimit
from sb3_ext.common.updates import Backup

__all__ = ["KL_STOP_SCOPES", "KLGuard", "adapted_learning_rate", "limit_of_epoch"]

KL_STOP_SCOPES = ("minibatch", "epoch")

_LR_FACTOR = 1.5


def limit_of_epoch(value: float | None, scope: str, rollback: bool, is_last: bool) -> KLLimit | None:
    """
    :param value: the largest KL divergence allowed; ``None`` allows any
    :param scope: one of ``KL_STOP_SCOPES``
    :param is_last: whether it is the last epoch of the update: with rollback, its last step is checked too
    """
    if value is None:
        return None
    return KLLimit(value, scope == "minibatch", scope == "epoch" or (rollback and is_last), rollback)


class KLGuard:
    """Checks the KL divergences of one update, and undoes the steps that exceed the limit where it says so."""

    def __init__(self, back_up: Callable[[], Backup]) -> None:
        self._back_up = back_up
        self._inside: Backup | None = None

    def start(self, limit: KLLimit | None) -> None:
        """To be called before each epoch."""
        if limit is not None and limit.rollback and self._inside is None:
            self._inside = self._back_up()

    def stops(self, kl: float, limit: KLLimit) -> bool:
        """:return: whether the divergence exceeds the limit"""
        # Not `kl <= limit`: as in SB3, NaN does not stop the update (it must be seen, not hidden)
        exceeded = kl > limit.value
        if limit.rollback:
            assert self._inside is not None
            if exceeded:
                self._inside.restore()
            else:
                self._inside = self._back_up()
        return exceeded


def adapted_learning_rate(learning_rate: float, kl: float, target_kl: float, bounds: tuple[float, float]) -> float:
    """
    As in rsl_rl, rl_games and skrl.

    :param kl: KL divergence of an update with this learning rate
    :param bounds: smallest and largest learning rate
    :return: a smaller one if the divergence is more than twice the target, a larger one if it is less than half
    """
    if kl > 2 * target_kl:
        return max(learning_rate / _LR_FACTOR, bounds[0])
    if kl < target_kl / 2:
        return min(learning_rate * _LR_FACTOR, bounds[1])
    return learning_rate
