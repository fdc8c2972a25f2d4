"""Writes rows of metrics to a tracker, each at its timestep."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch as th
from stable_baselines3.common.logger import HParam, KVWriter

from sb3_ext.callbacks.tracking.tracker import EVAL_STEP, Tracker

__all__ = ["TrackerWriter", "gradient_histograms"]

#: Maximum number of parameters with histograms, and of numbers in one
_MAX_PARAMETERS, _MAX_NUMBERS = 64, 10_000


class TrackerWriter(KVWriter):
    """
    An output format of SB3's logger. Metrics that exclude the tracker's ``key`` are left out.

    :param tracker: its run is open
    """

    def __init__(self, tracker: Tracker) -> None:
        self._tracker = tracker
        #: Names logged so far, by this writer or TensorBoard's
        self.names: set[str] = set()
        #: Rows of the logger so far
        self.rows = 0

    def write(self, key_values: dict[str, Any], key_excluded: dict[str, tuple[str, ...]], step: int = 0) -> None:
        self.rows += 1
        logged: dict[str, Any] = {}
        for name, value in key_values.items():
            excluded = key_excluded.get(name) or ()
            if self._tracker.key in excluded:
                continue
            if isinstance(value, HParam):
                self._tracker.log_config(value.hparam_dict)
                continue
            self.names.add(name)
            if self._tracker.reads_tensorboard and "tensorboard" not in excluded and not isinstance(value, str):
                continue
            logged[name] = value
        if EVAL_STEP in logged:
            logged[self._tracker.axis.eval_metric] = self._tracker.axis.at(logged[EVAL_STEP])
        self.log(step, logged)

    def log(self, step: int, values: Mapping[str, Any]) -> None:
        self.names.update(values)
        self._tracker.log(step, values)

    def close(self) -> None:
        """The run is closed by its owner."""


def gradient_histograms(policy: th.nn.Module) -> dict[str, np.ndarray]:
    """Numbers for histograms: the gradients of the last minibatch, as applied, and the weights."""
    histograms = {}
    with_gradient = [(name, p) for name, p in policy.named_parameters() if p.grad is not None]
    for name, parameter in with_gradient[:_MAX_PARAMETERS]:
        assert parameter.grad is not None
        for kind, tensor in (("gradients", parameter.grad), ("weights", parameter)):
            every = max(-(-tensor.numel() // _MAX_NUMBERS), 1)
            numbers = tensor.detach().flatten()[::every].cpu().numpy()
            # A copy without NaN and infinity; the next update overwrites the memory
            finite = numbers[np.isfinite(numbers)]
            if finite.size:
                histograms[f"{kind}/{name}"] = finite
    return histograms
