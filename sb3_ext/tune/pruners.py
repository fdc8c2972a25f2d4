"""Pruners by name, and what they are told of a trial whose seeds are trained one after the other."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from copy import copy
from itertools import chain, takewhile

import numpy as np
from optuna.exceptions import ExperimentalWarning
from optuna.pruners import BasePruner, HyperbandPruner, MedianPruner, NopPruner, WilcoxonPruner
from optuna.study import Study
from optuna.trial import Trial

__all__ = ["PRUNERS", "Pruning", "make_pruner"]

PRUNERS = ("hyperband", "wilcoxon", "median", "none")


def make_pruner(name: str, *, seeds: int, evaluations: int) -> BasePruner:
    """
    :param seeds: of each trial
    :param evaluations: of each seed
    """
    if name == "hyperband":
        return HyperbandPruner(min_resource=max(1, evaluations // 3), max_resource=seeds * evaluations)
    if name == "median":
        return MedianPruner(n_startup_trials=3, n_warmup_steps=max(2, evaluations // 3))
    if name == "wilcoxon":
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ExperimentalWarning)
            return WilcoxonPruner(p_threshold=0.02, n_startup_steps=max(6, evaluations // 2))
    return NopPruner()


class Pruning:
    """
    Reports a trial's evaluations and decides whether it goes on.

    Give the study itself no pruner: with Hyperband as its pruner, Optuna's samplers would learn only from the trials
    of one bracket.

    :param n_first: trials that are never pruned, such as the start configuration
    """

    def __init__(self, name: str, *, n_first: int, seeds: int, evaluations: int):
        self._is_paired = name == "wilcoxon"
        self._n_first = n_first
        self._evaluations, self._total = evaluations, seeds * evaluations
        self._pruner = make_pruner(name, seeds=seeds, evaluations=evaluations)

    def should_prune(self, study: Study, trial: Trial, scores: Sequence[Sequence[float]]) -> bool:
        """
        :param scores: of the evaluations so far, for each seed in the order of the seeds. The decision depends on
            nothing that was reported later, when a trial is trained again after a kill.
        """
        reports = self._paired(scores) if self._is_paired else self._running_means(scores)
        stored = study._storage.get_trial(trial._trial_id)
        for step, value in reports.items():
            if step not in stored.intermediate_values:
                trial.report(value, step)
        is_over = sum(map(len, scores)) == self._total
        if trial.number < self._n_first or is_over or not reports:
            return False
        frozen = copy(stored)
        frozen.intermediate_values = reports
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # the best trial may have fewer evaluations: it had no time
            return self._pruner.prune(study, frozen)

    def _paired(self, scores: Sequence[Sequence[float]]) -> dict[int, float]:
        """Raw scores: each is compared with the best trial's of the same seed at the same time."""
        return {
            seed * self._evaluations + index: float(score)
            for seed, of_seed in enumerate(scores)
            for index, score in enumerate(of_seed)
        }

    def _running_means(self, scores: Sequence[Sequence[float]]) -> dict[int, float]:
        """
        Means of all evaluations until then; the step is their number. Seeds that are trained at the same time count
        one after the other too, so the mean of a step has the same seeds and times in all trials. Nothing is reported
        after a seed that ended early.
        """
        complete = list(takewhile(lambda of_seed: len(of_seed) == self._evaluations, scores))
        in_order = list(chain(*scores[: len(complete) + 1]))
        return {n: float(np.mean(in_order[:n])) for n in range(1, len(in_order) + 1)}
