"""Evaluates the agent during training, in this process or in a separate one."""

from sb3_ext.callbacks.evaluation.callback import Evaluation

__all__ = ["Evaluation"]
