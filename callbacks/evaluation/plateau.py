"""When a training no longer improves: the mean of the last evaluations against the best one before."""

from __future__ import annotations

import math

from sb3_ext.callbacks.evaluation.options import EvaluationConfig

__all__ = ["Plateau"]


class Plateau:
    """
    :param config: its ``window``, ``patience``, ``min_improvement`` and ``stop_after`` say when there is one
    """

    def __init__(self, config: EvaluationConfig) -> None:
        self._config = config
        self._best = -math.inf
        #: Evaluations since the best
        self._since = 0

    def add(self, mean: float, progress: float) -> str | None:
        """
        :param mean: of the last evaluations, when there are enough of them
        :param progress: share of the training that is over
        :return: why training can end; ``None`` when it can't
        """
        config = self._config
        if mean > self._best + config.min_improvement:
            self._best, self._since = mean, 0
            return None
        self._since += 1
        if self._since < config.patience or progress < config.stop_after:
            return None
        by = f" by more than {config.min_improvement:g}" if config.min_improvement else ""
        return (
            f"the mean of {config.window} evaluations has not exceeded {self._best:.4g}{by} for {self._since} of them"
        )
