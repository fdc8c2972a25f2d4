"""REINFORCE: the algorithm, and its rollout buffer, which returns whole episodes."""

from sb3_ext.reinforce.reinforce import REINFORCE

__all__ = ["REINFORCE"]
