"""Weights & Biases: one run for each training, with all there is to see."""

from sb3_ext.callbacks.tracking.callback import Tracking

__all__ = ["Tracking"]
