"""Checkpoints: what an agent is at a moment, how it scores and what it does."""

from sb3_ext.callbacks.checkpoints.callback import Checkpoints

__all__ = ["Checkpoints"]
