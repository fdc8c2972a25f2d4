"""Tells environments how far training is, for wrappers whose parameters follow it."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.vec_env import VecEnv

from sb3_ext.wrappers.training_link import link_to_training

__all__ = ["FollowsTraining", "TrainingProgress", "tell_progress"]

_METHOD = "set_training_progress"
#: Environments are told again when at least this share of training has passed: some algorithms have a rollout each step
_STEP = 0.001


@runtime_checkable
class FollowsTraining(Protocol):
    """A wrapper that wants to know how far training is."""

    def set_training_progress(self, progress: float) -> None:
        """
        :param progress: the share of training that is over, from 0 to 1
        """


class TrainingProgress(BaseCallback):
    """
    Calls ``set_training_progress(progress)`` of the training environments that have it at the start of each rollout,
    with 0 at the start of training and 1 at its end. Where none has it, it does nothing. Also tells potential-based
    shapers the algorithm's discount, see ``link_to_training``.

    SB3 resets environments before any callback is asked: ``tell_progress(env, 0.0)`` before ``learn()`` reaches the
    first episodes too.

    :param verbose: as for every callback
    """

    def __init__(self, verbose: int = 0) -> None:
        super().__init__(verbose)
        self._env: VecEnv | None = None
        self._followers: list[int] = []
        self._told = -1.0

    def _on_training_start(self) -> None:
        self._env = None
        link_to_training(self.training_env, getattr(self.model, "gamma", None))

    def _on_rollout_start(self) -> None:
        if self.training_env is not self._env:
            self._env = self.training_env
            self._followers = _find_followers(self._env)
            self._told = -1.0
        if not self._followers:
            return
        total = self.model._total_timesteps
        progress = min(self.model.num_timesteps / total, 1.0) if total > 0 else 1.0
        if progress - self._told >= _STEP or progress < self._told:
            self._env.env_method(_METHOD, progress, indices=self._followers)
            self._told = progress

    def _on_step(self) -> bool:
        return True


def tell_progress(env: VecEnv, progress: float) -> None:
    """
    :param env: the vectorised environment; members that don't want to know are left alone
    :param progress: the share of training that is over, from 0 to 1
    """
    followers = _find_followers(env)
    if followers:
        env.env_method(_METHOD, progress, indices=followers)


def _find_followers(env: VecEnv) -> list[int]:
    if env.has_attr(_METHOD):
        return list(range(env.num_envs))
    # The environments may differ. This asks each of them, in whichever process it is, whether a wrapper has the method
    return [index for index, follows in enumerate(env.env_is_wrapped(FollowsTraining)) if follows]  # type: ignore[arg-type]
