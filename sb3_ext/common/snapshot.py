"""A copy of a policy's parameters and of its optimizer's state, to go back to."""

from __future__ import annotations

from copy import deepcopy
from typing import Protocol

from stable_baselines3.common.policies import BasePolicy

__all__ = ["PolicySnapshot", "Snapshot"]


class Snapshot(Protocol):
    """Something to go back to."""

    def restore(self) -> None:
        """Go back to it."""


class PolicySnapshot:
    """
    :param policy: an SB3 policy with its optimizer; the copy is taken now
    """

    def __init__(self, policy: BasePolicy) -> None:
        self._policy = policy
        self._parameters = deepcopy(policy.state_dict())
        self._optimizer = deepcopy(policy.optimizer.state_dict())

    def restore(self) -> None:
        """Put the policy and its optimizer back to where they were."""
        self._policy.load_state_dict(self._parameters)
        self._policy.optimizer.load_state_dict(self._optimizer)
