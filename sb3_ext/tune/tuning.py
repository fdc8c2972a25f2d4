"""What happens once a study is open: search, finalists, comparison on fresh seeds, section, report."""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from sb3_ext.runs.files import atomic_write
from sb3_ext.tune.confirm import Comparison, compare, n_trainings, seconds_per_training, select
from sb3_ext.tune.live import LiveTable
from sb3_ext.tune.plots import draw_plots
from sb3_ext.tune.pool import Pool
from sb3_ext.tune.record import TrialRecord
from sb3_ext.tune.report import write_report
from sb3_ext.tune.scheduler import Budget, Scheduler
from sb3_ext.tune.settings import StudySettings
from sb3_ext.tune.study import TuneStudy
from sb3_ext.zoo.config.write import section_text

__all__ = ["Tuning"]

_DEFAULT_TRIALS = 50
#: Of the time, at most so much is for finalists and fresh seeds
_LARGEST_SHARE = 0.4


class Tuning:
    """
    :param args: of ``sb3-ext tune``
    :param start: when the command began, by ``time.monotonic``
    """

    def __init__(
        self, args: argparse.Namespace, study: TuneStudy, pool: Pool, folder: Path, table: LiveTable, start: float
    ) -> None:
        self._args, self._study, self._pool, self._folder, self._table = args, study, pool, folder, table
        self._start = start

    def run(self) -> None:
        with self._study:
            self._search()
            best = self._study.best(1)
            if best and not self._args.fresh_seeds:
                self._table.say(
                    f"Best: {_named(best[0])}. It was not compared with the start, so no section is written."
                )
            elif best:
                with self._study.claimed("final") as other:
                    if other is None:
                        self._finish()
                    else:
                        self._table.say(f"The final comparison is done by {other}.")
        self.write()

    def write(self) -> None:
        """The report and the plots, from what is stored."""
        draw_plots(self._study.study, self._folder)
        self._table.say(f"wrote {write_report(self._study.study, self._folder)}")
        if self._args.track:
            from sb3_ext.tune.wandb_study import log_study

            log_study(self._study.study, self._folder, self._args.wandb_project_name, self._args.wandb_entity)

    def _search(self) -> None:
        args = self._args
        has_limit = args.trials is not None or args.steps is not None or args.minutes is not None
        seconds = None if args.minutes is None else 60 * args.minutes - (time.monotonic() - self._start)
        budget = Budget(args.trials if has_limit else _DEFAULT_TRIALS, args.steps, seconds)
        Scheduler(self._study, self._pool, budget, self._table, self._reserve).search()

    def _reserve(self) -> float:
        """Seconds of one worker that the end will take: of the time that the command has, less than half."""
        if self._args.minutes is None:
            return 0.0
        most = _LARGEST_SHARE * 60 * self._args.minutes * self._pool.size
        return min(most, self._seconds_of_end(self._args.finalists))

    def _seconds_of_end(self, finalists: int) -> float:
        fresh_seeds = self._args.fresh_seeds
        n = n_trainings(finalists, self._study.settings.seeds, fresh_seeds) if fresh_seeds else 0
        return n * seconds_per_training(self._study)

    def _n_finalists(self) -> int:
        """As many as there is time for."""
        if self._args.minutes is None:
            return self._args.finalists
        left = (60 * self._args.minutes - (time.monotonic() - self._start)) * self._pool.size
        most = self._args.finalists
        finalists = next((n for n in range(most, 1, -1) if self._seconds_of_end(n) <= left), 1)
        missing = (self._seconds_of_end(finalists) - left) / self._pool.size
        if finalists < most:
            self._table.say(f"There is time for {finalists} of {most} finalists.")
        if missing > 60:
            self._table.say(
                f"The comparison on fresh seeds takes about {missing / 60:.0f} minutes longer than --minutes."
            )
        return finalists

    def _finish(self) -> None:
        study, pool, table = self._study, self._pool, self._table
        best = select(study, pool, table, self._n_finalists())
        study.study.set_user_attr("start_is_best", best.section == study.settings.start)
        if best.section == study.settings.start:
            table.say(f"No trial is better than the start, {_named(best)}: no section is written.")
            return
        comparison = compare(study, pool, table, best, self._args.fresh_seeds)
        written = self._write_section(comparison, best) if comparison.is_better else None
        result = {**comparison.as_dict(), "written": None if written is None else str(written)}
        study.study.set_user_attr("result", result)
        _tell(comparison, study.settings, written, table)

    def _write_section(self, comparison: Comparison, best: TrialRecord) -> Path:
        path, settings = self._folder / "tuned.yml", self._study.settings
        value, low, high = comparison.difference
        header = (
            f"# Trial {best.number} of the study {self._study.name}: {value:+.4g} ({low:+.4g} to {high:+.4g}) against "
            f"the start\n# on {len(comparison.seeds)} fresh seeds, {settings.objective} of {settings.timesteps:,} "
            "timesteps\n"
        )
        text = section_text(settings.env, settings.algo, best.section)
        with atomic_write(path) as unfinished:
            unfinished.write_text(header + text, encoding="utf-8")
        return path


def _named(record: TrialRecord) -> str:
    return f"trial {record.number}, with a score of {record.score:.4g}"


def _tell(comparison: Comparison, settings: StudySettings, written: Path | None, table: LiveTable) -> None:
    value, low, high = comparison.difference
    interval = "" if low is None else f" (95 % interval {low:+.4g} to {high:+.4g})"
    n = len(comparison.seeds)
    seeds = f"{n} fresh seed{'s' * (n > 1)}"
    table.say(
        f"Trial {comparison.trial} against the start on {seeds}: {value:+.4g}{interval}, p = {comparison.p_value:.2g}"
    )
    if written is None:
        all_must = " With 3 seeds, each must beat each of the start's." if n == 3 else ""
        table.say(f"That is not clearly better, so no section is written.{all_must} The report has the best trial's.")
    else:
        table.say(
            f"wrote {written}\ntrain with it: sb3-ext train --algo {settings.algo} --env {settings.env} -conf {written}"
        )
