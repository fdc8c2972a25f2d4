"""Trains the best configurations again, on seeds that had no part in choosing them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from statistics import median
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import permutation_test, rankdata

from sb3_ext.metrics.statistics import estimate, probability_of_improvement
from sb3_ext.tune.judge import score_curve, score_seeds
from sb3_ext.tune.live import LiveTable
from sb3_ext.tune.pool import Done, Lost, Pool, Reached, Refused
from sb3_ext.tune.record import TrialRecord, curve_from, curve_to
from sb3_ext.tune.settings import FRESH, SELECT
from sb3_ext.tune.study import TuneStudy
from sb3_ext.tune.view import FinishedRow, RunningRow, StudyView
from sb3_ext.zoo.trial_training import Curve, TrialTraining

__all__ = ["Comparison", "compare", "n_trainings", "select"]

#: The best configuration is better if luck alone would do as much at most this often
_SIGNIFICANT = 0.05


class Comparison(NamedTuple):
    """
    The best configuration against the start, on fresh seeds.

    :param start: scores
    :param best: scores, of the same seeds
    :param difference: of the means, with its interval
    :param probability: that the best one scores higher, with its interval
    :param p_value: of the scores being that much higher by chance, from an exact rank test
    """

    trial: int
    start: tuple[float, ...]
    best: tuple[float, ...]
    seeds: tuple[int, ...]
    difference: tuple[float, float | None, float | None]
    probability: tuple[float, float | None, float | None]
    p_value: float

    @property
    def is_better(self) -> bool:
        """It takes three seeds at least; bootstrap intervals of so few are much too narrow to decide."""
        return self.p_value <= _SIGNIFICANT

    def as_dict(self) -> dict[str, Any]:
        """For JSON: the study's attribute ``result``."""
        start = {"scores": self.start, "seeds": self.seeds}
        best = {"trial": self.trial, "scores": self.best, "seeds": self.seeds}
        intervals = {"difference": self.difference, "probability": self.probability}
        return {"start": start, "best": best, **intervals, "p_value": self.p_value, "is_better": self.is_better}


def n_trainings(finalists: int, seeds: int, fresh_seeds: int) -> int:
    """How many trainings :func:`select` and :func:`compare` take."""
    return (finalists * seeds if finalists > 1 else 0) + 2 * fresh_seeds


def select(study: TuneStudy, pool: Pool, table: LiveTable, finalists: int) -> TrialRecord:
    """The best of the best trials, on more seeds: the highest score of many is often the luckiest."""
    best = study.best(finalists)
    if len(best) == 1:
        return best[0]
    phase = _Phase(study, pool, table, "finalists", SELECT, study.settings.seeds)
    curves = phase.run({f"trial {record.number}": record.section for record in best})
    return max(best, key=lambda record: _score(study, [*record.curves, *curves[f"trial {record.number}"]]))


def compare(study: TuneStudy, pool: Pool, table: LiveTable, best: TrialRecord, fresh_seeds: int) -> Comparison:
    name = f"trial {best.number}"
    phase = _Phase(study, pool, table, "fresh seeds", FRESH, fresh_seeds)
    curves = phase.run({"start": study.settings.start, name: best.section})
    of_start, of_best = (
        tuple(score_curve(study.settings, curve, study.seconds) for curve in curves[key]) for key in ("start", name)
    )
    seeds = tuple(study.settings.real_seed(seed, FRESH) for seed in range(fresh_seeds))
    probability = probability_of_improvement([_ranked(of_best)], [_ranked(of_start)])
    difference = estimate([np.subtract(of_best, of_start)], np.mean)
    p_value = _rank_test(_ranked(of_best), _ranked(of_start))
    return Comparison(best.number, of_start, of_best, seeds, _rounded(difference), _rounded(probability), p_value)


def _rank_test(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """Wilcoxon's rank-sum test as a permutation test, which is exact for few seeds and with ties."""
    ranks = rankdata([*ours, *theirs])
    parts = (ranks[: len(ours)], ranks[len(ours) :])
    tested = permutation_test(parts, _excess, alternative="greater", vectorized=True, rng=np.random.default_rng(0))
    return float(tested.pvalue)


def _excess(ours: np.ndarray, theirs: np.ndarray, axis: int) -> np.ndarray:
    return ours.mean(axis=axis) - theirs.mean(axis=axis)


def _ranked(scores: Sequence[float]) -> list[float]:
    """A training that diverged at once has no score: it is worse than any."""
    return [-1e300 if np.isnan(score) else score for score in scores]


def _score(study: TuneStudy, curves: Sequence[Curve]) -> float:
    score = score_seeds(study.settings, curves, study.seconds)
    return -np.inf if np.isnan(score) else score


def _rounded(of: Any) -> tuple[float, float | None, float | None]:
    return tuple(None if number is None else float(number) for number in of[:3])  # type: ignore[return-value]


class _Phase:
    """Trainings of some configurations with the same seeds. What was trained before a kill is not trained again."""

    def __init__(
        self, study: TuneStudy, pool: Pool, table: LiveTable, name: str, seeds_from: int, n_seeds: int
    ) -> None:
        self._study, self._pool, self._table = study, pool, table
        self._name, self._seeds_from, self._n_seeds = name, seeds_from, n_seeds
        self._in_work: dict[tuple[str, int], RunningRow] = {}
        self._n_new = 0
        self._start = time.monotonic()
        study.finished.clear()

    def run(self, configurations: dict[str, dict[str, Any]]) -> dict[str, list[Curve]]:
        curves: dict[tuple[str, int], Curve] = {}
        # Seed by seed, so that an interrupted comparison has both sides of some seeds
        wanted = [(name, seed) for seed in range(self._n_seeds) for name in configurations]
        waiting = []
        for key in wanted:
            known = self._study.study.user_attrs.get(self._attribute(key))
            if known is None:
                waiting.append(key)
            else:
                curves[key] = curve_from(known)
        while waiting or self._in_work:
            while waiting and len(self._in_work) < self._pool.size:
                name, seed = key = waiting.pop(0)
                self._pool.submit(key, self._training(configurations[name], seed))
                self._in_work[key] = self._row(key)
            for event in self._pool.wait(1.0):
                self._handle(event, curves, waiting)
            self._table.update(self._view(len(curves), len(wanted)))
        return {name: [curves[name, seed] for seed in range(self._n_seeds)] for name in configurations}

    def _training(self, section: dict[str, Any], seed: int) -> TrialTraining:
        return self._study.settings.training(section, seed, self._seeds_from, self._study.seconds)

    def _handle(
        self, event: Reached | Done | Lost | Refused, curves: dict[tuple[str, int], Curve], waiting: list[Any]
    ) -> None:
        key = event.key
        if key not in self._in_work:
            return
        if isinstance(event, Reached):
            self._in_work[key] = self._row(key)._replace(step=event.point.step, score=event.point.score)
            self._pool.answer(key, True)
            return
        del self._in_work[key]
        if isinstance(event, Lost):
            self._table.say(f"{key[0]}: {event.reason}; its training starts again")
            waiting.insert(0, key)
            return
        refused = isinstance(event, Refused)
        curve = Curve((), 0, 0.0, error=event.message) if refused else event.curve  # type: ignore[union-attr]
        curves[key] = curve
        self._n_new += 1
        self._study.study.set_user_attr(self._attribute(key), curve_to(curve))
        score = score_curve(self._study.settings, curve, self._study.seconds)
        name = f"{key[0]}, {self._name}: seed {key[1] + 1}"
        self._study.finished.append(FinishedRow(name, "failed" if curve.error else "complete", score))

    def _attribute(self, key: tuple[str, int]) -> str:
        name, seed = key
        return f"fresh {name} {self._study.settings.real_seed(seed, self._seeds_from)}"

    def _row(self, key: tuple[str, int]) -> RunningRow:
        name, seed = key
        number = int(name.removeprefix("trial ")) if name.startswith("trial ") else 0
        return RunningRow(number, seed + 1, self._n_seeds, 0, self._study.settings.timesteps, None, name)

    def _view(self, done: int, total: int) -> StudyView:
        study, elapsed = self._study, time.monotonic() - self._start
        remaining = (total - done) * elapsed / self._n_new if self._n_new else None
        title = f"{study.settings.env}, {study.settings.algo}: study {study.name}"
        running, finished = tuple(self._in_work.values()), tuple(study.finished)
        return StudyView(title, self._name, {}, total, elapsed, remaining, running, (), finished, done)


def seconds_per_training(study: TuneStudy) -> float:
    """Median of the trainings that were not stopped."""
    curves = [curve for record in study.best(20) for curve in record.curves if not curve.is_stopped]
    return median(curve.seconds for curve in curves) if curves else 0.0
