"""Runs the trials of a study on a pool of workers, within a budget, and lets a pruner stop the hopeless ones."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from statistics import fmean, median
from typing import NamedTuple

from optuna.trial import TrialState

from sb3_ext.common.usage_error import UsageError
from sb3_ext.tune.judge import score_seeds
from sb3_ext.tune.live import LiveTable
from sb3_ext.tune.pool import Done, Lost, Pool, Reached, Refused
from sb3_ext.tune.pruners import Pruning
from sb3_ext.tune.record import STATES, changes, trial_record
from sb3_ext.tune.running import RunningTrial
from sb3_ext.tune.study import TuneStudy
from sb3_ext.tune.view import BestRow, FinishedRow, StudyView

__all__ = ["Budget", "Scheduler"]

#: Trials that a sampler may propose in a row although they can't be trained
_MAX_REFUSED = 5
#: Seconds between two looks at the trials of other machines, when there are no more of ours
_LOOK_EVERY = 1.0
_ENDED = (TrialState.COMPLETE, TrialState.PRUNED, TrialState.FAIL)


class Budget(NamedTuple):
    """
    A study ends when one of these is used up. ``None``: no limit.

    :param trials: of the study, those of earlier commands too
    :param steps: of all trainings of the study
    :param seconds: of this command
    """

    trials: int | None = None
    steps: int | None = None
    seconds: float | None = None


class Scheduler:
    """
    :param reserve: seconds of one worker that are needed after the search, asked for when a trial has ended
    """

    def __init__(
        self,
        study: TuneStudy,
        pool: Pool,
        budget: Budget,
        table: LiveTable,
        reserve: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self._study, self._pool, self._budget, self._table = study, pool, budget, table
        self._reserve, self._reserved = reserve, 0.0
        settings, n_first = study.settings, study.n_first
        self._pruning = Pruning(
            settings.pruner, n_first=n_first, seeds=settings.seeds, evaluations=settings.evaluations
        )
        self._running: dict[int, RunningTrial] = {}
        self._is_exhausted = False
        #: When to look again, while trials of other machines run: those of dead ones are ours then
        self._next_look: float | None = None
        self._durations: dict[int, float] = {}
        self._steps: dict[int, int] = {}
        self._n_refused = 0
        self._start = time.monotonic()
        study.finished.clear()

    def search(self) -> None:
        """Until the budget is used up. Whatever ends it, trials that are not finished can be continued."""
        is_told = False
        try:
            while True:
                self._start_trainings()
                if not self._running:
                    if self._next_look is None:
                        return
                    if not is_told:
                        self._table.say("All trials have been started; waiting for those of other machines.")
                    is_told = True
                    time.sleep(max(0.0, self._next_look - time.monotonic()))
                for event in self._pool.wait(1.0):
                    self._handle(event)
                if self._has_no_time:
                    return
                self._table.update(self.view())
        finally:
            for running in self._running.values():
                for seed in running.in_work:
                    self._pool.stop((running.number, seed))
            self._study.give_back([running.trial for running in self._running.values()])
            self._running.clear()

    def view(self) -> StudyView:
        study = self._study
        counts = Counter(STATES[trial.state] for trial in study.trials())
        best = [
            BestRow(r.number, r.score or 0.0, r.proposed_by, changes(study.settings.start, r.section))
            for r in study.best(5)
        ]
        rows = [row for running in self._running.values() for row in running.rows()]
        title = f"{study.settings.env}, {study.settings.algo}: study {study.name}"
        elapsed = time.monotonic() - self._start
        return StudyView(
            title,
            "search",
            counts,
            self._budget.trials,
            elapsed,
            self._remaining(counts, elapsed),
            tuple(rows),
            tuple(best),
            tuple(study.finished),
        )

    def _remaining(self, counts: Counter[str], elapsed: float) -> float | None:
        estimates = []
        if self._budget.seconds is not None:
            estimates.append(self._budget.seconds - elapsed)
        ended = [seconds for seconds in self._durations.values() if seconds > 0]
        if self._budget.trials is not None and ended:
            left = self._budget.trials - sum(counts[state] for state in ("complete", "pruned", "failed"))
            # The mean, because most are pruned early and a few are not
            estimates.append(left * fmean(ended) / max(1, min(self._pool.size, left)))
        return max(0.0, min(estimates)) if estimates else None

    @property
    def _has_no_time(self) -> bool:
        if self._budget.seconds is None:
            return False
        elapsed = time.monotonic() - self._start
        return elapsed + self._reserved / max(1, self._pool.size) >= self._budget.seconds

    def _start_trainings(self) -> None:
        """Next seeds of trials that have begun, then new trials, then more seeds at once."""
        busy = sum(len(running.in_work) for running in self._running.values())
        for _ in range(self._pool.size - busy):
            idle = [running for running in self._running.values() if running.has_waiting and not running.is_pruned]
            running = next((r for r in idle if not r.in_work), None) or self._new_trial() or next(iter(idle), None)
            if running is None:
                return
            seed, training = running.next_training()
            self._pool.submit((running.number, seed), training)

    def _new_trial(self) -> RunningTrial | None:
        if self._next_look is not None and time.monotonic() < self._next_look:
            return None
        self._next_look = None
        if self._is_exhausted or self._has_no_time or self._has_no_steps:
            return None
        if self._study.settings.clock and self._running and self._study.seconds is None:
            return None  # the start's time, which limits all others, is not known yet
        trial = self._study.ask(self._budget.trials)
        if trial is None:
            if len(self._study.trials(TrialState.RUNNING)) > len(self._running):
                self._next_look = time.monotonic() + _LOOK_EVERY
            else:
                self._is_exhausted = True
            return None
        running = RunningTrial(trial, self._study.settings, self._pruning, self._study.seconds)
        if running.is_over:  # killed after its last seed, before it was judged
            self._finish(running)
            return self._new_trial()
        self._running[trial.number] = running
        self._durations[trial.number] = -time.monotonic()
        return running

    @property
    def _has_no_steps(self) -> bool:
        if self._budget.steps is None:
            return False
        for trial in self._study.trials(*_ENDED):
            if trial.number not in self._steps:
                self._steps[trial.number] = sum(curve.steps for curve in trial_record(trial).curves)
        return sum(self._steps.values()) >= self._budget.steps

    def _handle(self, event: Reached | Done | Lost | Refused) -> None:
        number, seed = event.key
        running = self._running.get(number)
        if running is None:
            return  # of a trial that was stopped
        if isinstance(event, Reached):
            self._pool.answer(event.key, running.add_point(seed, event.point))
        elif isinstance(event, Lost):
            self._table.say(f"trial {number}: {event.reason}; its training starts again")
            running.lose(seed)
        elif isinstance(event, Refused):
            self._refuse(running, event.message)
        else:
            running.add_curve(seed, event.curve)
            if running.is_pruned:
                self._stop(running)
            if running.is_over:
                self._finish(running)

    def _stop(self, running: RunningTrial) -> None:
        for seed in running.in_work:
            self._pool.stop((running.number, seed))
            running.drop(seed)

    def _refuse(self, running: RunningTrial, message: str) -> None:
        self._n_refused += 1
        self._stop(running)
        if self._is_start(running) or self._n_refused >= _MAX_REFUSED:
            raise UsageError(message)
        self._table.say(f"trial {running.number} can't be trained: {message.splitlines()[0]}")
        self._end(running, TrialState.FAIL, None, message)

    def _is_start(self, running: RunningTrial) -> bool:
        return running.section == self._study.settings.start

    def _finish(self, running: RunningTrial) -> None:
        curves = [running.curves[seed] for seed in sorted(running.curves)]
        errors = [curve.error for curve in curves if curve.error is not None]
        if running.is_pruned:
            self._end(running, TrialState.PRUNED, None)
        elif not all(curve.points for curve in curves):
            # Worse than any that was pruned later, for a sampler
            self._end(running, TrialState.PRUNED, None, errors[0] if errors else "it was never evaluated")
        else:
            study = self._study
            if study.settings.clock and self._is_start(running) and study.seconds is None:
                study.seconds = median(curve.points[-1].seconds for curve in curves)
            value = score_seeds(study.settings, curves, study.seconds)
            self._end(running, TrialState.COMPLETE, value, errors[0] if errors else None)

    def _end(self, running: RunningTrial, state: TrialState, value: float | None, error: str | None = None) -> None:
        record = self._study.tell(running.trial, value, state, error)
        self._running.pop(running.number, None)
        if running.number in self._durations:
            self._durations[running.number] += time.monotonic()
        if state == TrialState.COMPLETE:
            self._n_refused = 0
        if record is None:
            self._table.say(f"trial {running.number} was taken over by another machine")
            return
        self._study.finished.append(FinishedRow(f"trial {record.number}", record.state, record.score))
        self._reserved = self._reserve()
