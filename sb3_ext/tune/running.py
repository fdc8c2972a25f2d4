"""A trial while it is trained: its seeds, their curves, and what the pruner is told."""

from __future__ import annotations

from typing import Any

import optuna

from sb3_ext.tune.pruners import Pruning
from sb3_ext.tune.record import curve_from, seeds_of
from sb3_ext.tune.settings import StudySettings
from sb3_ext.tune.study import store_curve
from sb3_ext.tune.view import RunningRow
from sb3_ext.zoo.trial_training import Curve, Point, TrialTraining

__all__ = ["RunningTrial"]


class RunningTrial:
    """
    :param max_seconds: of each training
    """

    def __init__(
        self, trial: optuna.Trial, settings: StudySettings, pruning: Pruning, max_seconds: float | None = None
    ) -> None:
        self.trial, self._settings, self._pruning, self._max_seconds = trial, settings, pruning, max_seconds
        attributes = trial.user_attrs
        self.section: dict[str, Any] = attributes["section"]
        self.proposed_by: str = attributes["proposed_by"]
        self.curves: dict[int, Curve] = {seed: curve_from(attributes[f"curve {seed}"]) for seed in seeds_of(attributes)}
        self._points: dict[int, list[Point]] = {seed: list(curve.points) for seed, curve in self.curves.items()}
        self._waiting = [seed for seed in range(settings.seeds) if seed not in self.curves]
        self._in_work: set[int] = set()
        self.is_pruned = False

    @property
    def number(self) -> int:
        return self.trial.number

    @property
    def has_waiting(self) -> bool:
        return bool(self._waiting)

    @property
    def in_work(self) -> list[int]:
        return sorted(self._in_work)

    @property
    def is_over(self) -> bool:
        return not self._in_work and (self.is_pruned or not self._waiting)

    def next_training(self) -> tuple[int, TrialTraining]:
        """The next seed that waits, and its training."""
        seed = self._waiting.pop(0)
        self._in_work.add(seed)
        self._points[seed] = []
        return seed, self._settings.training(self.section, seed, max_seconds=self._max_seconds)

    def add_point(self, seed: int, point: Point) -> bool:
        """:return: whether to go on"""
        self._points[seed].append(point)
        if self.is_pruned:
            return False
        n_seeds = max(self._points) + 1
        scores = [[point.score for point in self._points.get(seed, [])] for seed in range(n_seeds)]
        self.is_pruned = self._pruning.should_prune(self.trial.study, self.trial, scores)
        return not self.is_pruned

    def add_curve(self, seed: int, curve: Curve) -> None:
        self._in_work.discard(seed)
        self.curves[seed] = curve
        store_curve(self.trial, seed, curve)

    def lose(self, seed: int) -> None:
        """Its worker is gone: train it again."""
        self._in_work.discard(seed)
        self._waiting.insert(0, seed)

    def drop(self, seed: int) -> None:
        """It was stopped, because the trial is pruned."""
        self._in_work.discard(seed)

    def rows(self) -> list[RunningRow]:
        """One for each training."""
        rows = []
        for seed in self.in_work:
            points = self._points[seed]
            step, score = (points[-1].step, points[-1].score) if points else (0, None)
            n_seeds, timesteps = self._settings.seeds, self._settings.timesteps
            rows.append(RunningRow(self.number, seed + 1, n_seeds, step, timesteps, score, self.proposed_by))
        return rows
