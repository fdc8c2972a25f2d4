"""Evaluation of an agent while it is trained, here or in a process of its own."""

from sb3_ext.callbacks.evaluation.callback import Evaluation

__all__ = ["Evaluation"]
