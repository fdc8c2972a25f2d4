"""The learning rate that follows the KL divergence, as in rsl_rl, rl_games and skrl."""

from __future__ import annotations

__all__ = ["adapted_learning_rate"]

_FACTOR = 1.5


def adapted_learning_rate(learning_rate: float, kl: float, target_kl: float, bounds: tuple[float, float]) -> float:
    """
    :param learning_rate: the present one
    :param kl: KL divergence that an update with it made
    :param target_kl: what it should make
    :param bounds: smallest and largest learning rate
    :return: less where the divergence was more than twice the target, more where it was less than half
    """
    if kl > 2 * target_kl:
        return max(learning_rate / _FACTOR, bounds[0])
    if kl < target_kl / 2:
        return min(learning_rate * _FACTOR, bounds[1])
    return learning_rate
