"""Measures what pruners of studies save and lose, on simulated learning curves.

python scripts/benchmarks/study_pruners.py               # about ten minutes
python scripts/benchmarks/study_pruners.py --studies 5

A study has 40 random configurations with 3 seeds and 10 evaluations each. Curves of the family `rate` rise at once, at
different rates; those of `onset` are flat until the agent finds out how to score. Seeds differ, some fail, and
evaluations are noisy.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from statistics import fmean, median
from typing import NamedTuple

import numpy as np
import optuna
from optuna.trial import TrialState

from sb3_ext.tune.pruners import PRUNERS, Pruning

SEEDS, EVALUATIONS, TRIALS = 3, 10, 40
TIMES = np.arange(1, EVALUATIONS + 1) / EVALUATIONS

#: Makes the curve of a seed
Configuration = Callable[[np.random.Generator], np.ndarray]


def rate(rng: np.random.Generator) -> Configuration:
    height, tau, noise = rng.beta(2, 2), np.exp(rng.uniform(np.log(0.05), np.log(3))), rng.uniform(0.03, 0.15)
    failures, spread = max(0.0, rng.uniform(-0.3, 0.5)), rng.uniform(0.1, 0.5)

    def curve(rng: np.random.Generator) -> np.ndarray:
        reached = (height + rng.normal(0, 0.05)) * (0.2 if rng.random() < failures else 1)
        rise = 1 - np.exp(-TIMES / (tau * np.exp(rng.normal(0, spread))))
        return reached * rise + rng.normal(0, noise, EVALUATIONS)

    return curve


def onset(rng: np.random.Generator) -> Configuration:
    height, start, width = rng.uniform(0.3, 1), rng.uniform(0, 1.1), rng.uniform(0.03, 0.15)
    failures, spread, noise = max(0.0, rng.uniform(-0.3, 0.4)), rng.uniform(0.025, 0.15), rng.uniform(0.02, 0.1)

    def curve(rng: np.random.Generator) -> np.ndarray:
        reached = height + rng.normal(0, 0.05)
        begins = 9.0 if rng.random() < failures else start + rng.normal(0, spread)
        return reached / (1 + np.exp(-(TIMES - begins) / width)) + rng.normal(0, noise, EVALUATIONS)

    return curve


class Row(NamedTuple):
    """
    :param score: of all seeds, whether or not they were trained
    :param expected: score over many other seeds
    """

    score: float
    expected: float
    evaluations: int
    is_pruned: bool


def score_of(curves: list[np.ndarray]) -> float:
    return median(float(curve.mean()) for curve in curves)


def run_trial(study: optuna.Study, pruning: Pruning, configuration: Configuration, rng: np.random.Generator) -> Row:
    curves = [configuration(rng) for _ in range(SEEDS)]
    expected = fmean(float(configuration(rng).mean()) for _ in range(50))
    trial = study.ask()
    for n in range(1, SEEDS * EVALUATIONS + 1):
        full, rest = divmod(n, EVALUATIONS)
        scores = [*map(list, curves[:full]), *([list(curves[full][:rest])] if rest else [])]
        if pruning.should_prune(study, trial, scores) and n < SEEDS * EVALUATIONS:
            study.tell(trial, state=TrialState.PRUNED)
            return Row(score_of(curves), expected, n, True)
    study.tell(trial, score_of(curves))
    return Row(score_of(curves), expected, n, False)


def run_study(pruner: str, family: Callable[[np.random.Generator], Configuration], seed: int) -> list[Row]:
    study = optuna.create_study(direction="maximize", study_name=f"study {seed}")
    pruning = Pruning(pruner, n_first=2, seeds=SEEDS, evaluations=EVALUATIONS)
    rows = []
    for number in range(TRIALS):
        rng = np.random.default_rng([seed, number])
        rows.append(run_trial(study, pruning, family(rng), rng))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--studies", type=int, default=50, help="for each pruner and family (default: 50)")
    args = parser.parse_args()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    print("| curves | pruner | saved | best pruned | of the best three pruned | expected score of the best |")
    print("|---|---|---|---|---|---|")
    for family in (rate, onset):
        for pruner in PRUNERS:
            studies = [run_study(pruner, family, seed) for seed in range(args.studies)]
            saved = fmean(1 - sum(row.evaluations for row in rows) / (TRIALS * SEEDS * EVALUATIONS) for rows in studies)
            ranked = [sorted(rows, key=lambda row: -row.score) for rows in studies]
            best = fmean(rows[0].is_pruned for rows in ranked)
            three = fmean(row.is_pruned for rows in ranked for row in rows[:3])
            chosen = fmean(next(row.expected for row in rows if not row.is_pruned) for rows in ranked)
            print(
                f"| {family.__name__} | {pruner} | {saved:.0%} | {best:.0%} | {three:.0%} | {chosen:.3f} |", flush=True
            )


if __name__ == "__main__":
    main()
