"""Checkpoints: models with their metrics, an episode step by step, and a video."""

from sb3_ext.callbacks.checkpoints.callback import Checkpoints

__all__ = ["Checkpoints"]
