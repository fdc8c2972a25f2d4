"""Weights & Biases or MLflow: one run per training."""

from sb3_ext.callbacks.tracking.callback import Tracking

__all__ = ["Tracking"]
