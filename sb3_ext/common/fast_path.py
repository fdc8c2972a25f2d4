"""The edge of the fast path: what algorithms ask of it, and what an update asks of the code that runs its epochs."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, Protocol

from stable_baselines3.common.buffers import RolloutBuffer
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.vec_env import VecEnv

__all__ = ["ALONE", "FastPath", "KLLimit", "UpdateBackend", "UpdateResult"]

#: Value of ``fast``: on one thread
ALONE = "alone"


class FastPath(Protocol):
    """
    A faster way to act, predict and update, for the policies that it supports. The algorithm owns it; it does not keep
    the algorithm, so each method is given it.
    """

    #: For rollouts on this path
    buffer_class: type[RolloutBuffer]

    def policy_of(self, algorithm: Any) -> Any:
        """:return: the algorithm's policy on this path; ``None`` where the path does not support it or is off"""

    def collect(
        self,
        algorithm: Any,
        env: VecEnv,
        callback: BaseCallback,
        buffer: RolloutBuffer,
        n_steps: int,
        plain: Callable[[], bool],
        on_complete: Callable[[RolloutBuffer], None],
    ) -> bool:
        """
        Collect a rollout on this path where it applies.

        :param plain: SB3's own loop, for where it does not
        :param on_complete: called when the rollout is complete, while its arrays are ordered by step and environment
        :return: ``False`` if a callback ended the training
        """

    def predicting(self, algorithm: Any) -> AbstractContextManager[None]:
        """Let ``predict`` take this path, as long as the policy does not change."""


class KLLimit(NamedTuple):
    """
    :param value: the largest KL divergence allowed
    :param scope: ``"minibatch"``: check each minibatch before the step on it; ``"epoch"``: the whole rollout after each
        epoch
    :param rollback: when it is exceeded, restore the last parameters and optimizer state found to be inside the limit;
        the last step of the update is then checked too
    """

    value: float
    scope: str
    rollback: bool

    @property
    def before_steps(self) -> bool:
        return self.scope == "minibatch"

    def checks_after(self, epoch: int, n_epochs: int) -> bool:
        """:return: whether the whole rollout is checked after an epoch"""
        return not self.before_steps or (self.rollback and epoch == n_epochs - 1)


class UpdateResult(NamedTuple):
    """
    :param n_steps: gradient steps made
    :param n_epochs: epochs with at least one of them
    :param stopped: whether the KL limit was exceeded
    :param last_kl: the KL divergence measured last, before any rollback
    :param metrics: one value per minibatch under each name
    """

    n_steps: int
    n_epochs: int
    stopped: bool
    last_kl: float
    metrics: Mapping[str, Sequence[float]]


class UpdateBackend(Protocol):
    """Runs the epochs of one update."""

    def run(self, n_epochs: int, limit: KLLimit | None) -> UpdateResult:
        """Each epoch is a pass over the rollout, in an order drawn by ``np.random.permutation`` as in SB3's buffers."""
