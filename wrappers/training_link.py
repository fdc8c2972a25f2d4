"""What a training tells its environments: the discount, shared counts, and how far it is."""

from typing import Protocol, runtime_checkable

from stable_baselines3.common.vec_env import VecEnv

from sb3_ext.wrappers.shaping.count_bonus import share_counts

__all__ = ["FollowsTraining", "find_followers", "link_to_training", "tell_progress"]

_METHOD = "set_training_progress"


@runtime_checkable
class FollowsTraining(Protocol):
    """A wrapper that wants to know how far training is."""

    def set_training_progress(self, progress: float) -> None:
        """:param progress: the completed share of training, from 0 to 1"""


def link_to_training(env: VecEnv, gamma: float | None) -> None:
    """
    Tell potential-based shapers the discount, and let shared count bonuses count together.

    :param env: the vectorised environment; without such wrappers nothing changes
    :param gamma: the discount of the algorithm, if it has one
    """
    if gamma is not None and env.has_attr("set_discount"):
        env.env_method("set_discount", gamma)
    share_counts(env)


def tell_progress(env: VecEnv, progress: float, followers: list[int] | None = None) -> None:
    """
    :param env: the vectorised environment
    :param progress: the completed share of training, from 0 to 1
    :param followers: indices of the environments to tell; those that want to know by default
    """
    followers = find_followers(env) if followers is None else followers
    if followers:
        env.env_method(_METHOD, progress, indices=followers)


def find_followers(env: VecEnv) -> list[int]:
    """Indices of the environments that want to know how far training is."""
    if env.has_attr(_METHOD):
        return list(range(env.num_envs))
    # The environments may differ. This asks each of them, in its own process, whether a wrapper has the method
    return [index for index, follows in enumerate(env.env_is_wrapped(FollowsTraining)) if follows]  # type: ignore[arg-type]
