"""Options that depend on the KL divergence of an update."""

__all__ = ["KL_STOP_SCOPES", "adapted_learning_rate"]

KL_STOP_SCOPES = ("minibatch", "epoch")

_LR_FACTOR = 1.5


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
