"""What a training has to tell its environments before it begins."""

from __future__ import annotations

from stable_baselines3.common.vec_env import VecEnv

from sb3_ext.wrappers.shaping.count_bonus import share_counts

__all__ = ["link_to_training"]


def link_to_training(env: VecEnv, gamma: float | None) -> None:
    """
    Tell potential-based shapers the discount, and let count bonuses that are shared count together.

    :param env: the vectorised environment; one without such wrappers is left as it is
    :param gamma: the discount of the algorithm; ``None`` for algorithms that have none
    """
    if gamma is not None and env.has_attr("set_discount"):
        env.env_method("set_discount", gamma)
    share_counts(env)
