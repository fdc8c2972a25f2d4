"""KL early stopping: decides during an update whether the policy has moved too far, and can take it back."""

from __future__ import annotations

from collections.abc import Callable

from sb3_ext.common.updates import Backup

__all__ = ["KL_STOP_SCOPES", "KLGuard"]

KL_STOP_SCOPES = ("minibatch", "epoch")


class KLGuard:
    """
    Guards one update, and is thrown away after it: a stop can't leak into the next update. Afterwards ``stopped`` says
    whether it ended the update, and ``last_kl`` what it measured last, before any rollback.

    :param limit: the largest KL divergence allowed; ``None`` allows all
    :param scope: ``"minibatch"`` looks at each minibatch before its step, ``"epoch"`` at the whole rollout after each
        epoch
    :param rollback: on a stop, go back to the last parameters and optimizer state seen to be inside the limit
    :param rollout_kl: measures the KL divergence over the whole rollout
    :param back_up: copies the policy and its optimizer, to go back to
    """

    def __init__(
        self,
        limit: float | None,
        scope: str,
        rollback: bool,
        rollout_kl: Callable[[], float],
        back_up: Callable[[], Backup],
    ) -> None:
        self.stopped = False
        self.last_kl = 0.0
        self._limit = limit
        self._by_minibatch = limit is not None and scope == "minibatch"
        self._by_epoch = limit is not None and scope == "epoch"
        self._rollback = limit is not None and rollback
        self._rollout_kl = rollout_kl
        self._back_up = back_up
        self._inside = back_up() if self._rollback else None

    def stops_before_step(self, minibatch_kl: float) -> bool:
        """
        :param minibatch_kl: KL divergence on a minibatch, before the step on it
        :return: whether to end the update here
        """
        if self._by_minibatch:
            self._judge(minibatch_kl)
        return self.stopped

    def stops_after_epoch(self) -> bool:
        """:return: whether to end the update after this epoch"""
        if self._by_epoch:
            self._judge(self._rollout_kl())
        return self.stopped

    def after_last_epoch(self) -> None:
        """With rollback, the last step of an update that ran to its end is held to the limit too."""
        if self._rollback and self._by_minibatch and not self.stopped:
            self._judge(self._rollout_kl())

    def _judge(self, kl: float) -> None:
        assert self._limit is not None
        self.last_kl = kl
        # Not `kl <= limit`: like SB3, a NaN does not stop the update (it must be seen, not hidden).
        self.stopped = kl > self._limit
        if not self._rollback:
            return
        if self.stopped:
            assert self._inside is not None
            self._inside.restore()
        else:
            self._inside = self._back_up()
