"""REINFORCE: the algorithm, and the rollout buffer that hands it whole episodes."""

from sb3_ext.reinforce.reinforce import REINFORCE

__all__ = ["REINFORCE"]
