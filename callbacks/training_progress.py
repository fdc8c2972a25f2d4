"""Tells environments the progress of the training, for wrappers whose parameters follow it."""

from collections.abc import Mapping
from typing import Any, ClassVar

from stable_baselines3.common.callbacks import BaseCallback

from sb3_ext.common.stateful import Stateful
from sb3_ext.wrappers.training_link import find_followers, link_to_training, tell_progress

__all__ = ["TrainingProgress"]

#: Progress between two messages to the environments: some algorithms have a rollout per step
_STEP = 0.001


class TrainingProgress(Stateful, BaseCallback):
    """
    Calls ``set_training_progress(progress)`` of the training environments that have it, at the start of each rollout,
    with 0 at the start of training and 1 at its end. Also tells potential-based shapers the algorithm's discount, see
    ``link_to_training``.

    SB3 resets environments before it calls any callback. To reach the first episodes too, call
    ``tell_progress(env, 0.0)`` before ``learn()``.
    """

    state_names: ClassVar[tuple[str, ...]] = ("n_calls", "_told")

    def __init__(self, verbose: int = 0) -> None:
        super().__init__(verbose)
        self._followers: list[int] = []
        self._told = -1.0

    def _on_training_start(self) -> None:
        link_to_training(self.training_env, getattr(self.model, "gamma", None))
        self._followers, self._told = find_followers(self.training_env), -1.0

    def restore(self, state: Mapping[str, Any]) -> None:
        super().restore(state)
        if self._followers and self._told >= 0:
            tell_progress(self.training_env, self._told, self._followers)

    def _on_rollout_start(self) -> None:
        if not self._followers:
            return
        total = self.model._total_timesteps
        progress = min(self.model.num_timesteps / total, 1.0) if total > 0 else 1.0
        if progress - self._told >= _STEP or progress < self._told:
            tell_progress(self.training_env, progress, self._followers)
            self._told = progress

    def _on_step(self) -> bool:
        return True
