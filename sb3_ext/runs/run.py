"""A training while it runs: its folder, its threshold, its rows, and how it ends.

SB3 calls ``on_training_end`` of the callback given to ``learn``, but only if the training is complete. RL Zoo calls it
on its first callback in any case, a second time, and swallows Ctrl-C. So :class:`Run` wraps ``on_training_end`` of the
callback given to ``learn``. If a training is incomplete, whoever sees it end calls :meth:`Run.end`: RL Zoo's manager, a
``with`` block, the next training, or the end of the program.
"""

from __future__ import annotations

import atexit
import os
import sys
import time
import warnings
import weakref
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from enum import IntEnum
from functools import partial
from pathlib import Path
from typing import Any, Literal

from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.logger import CSVOutputFormat, JSONOutputFormat, Logger
from stable_baselines3.common.vec_env import VecEnv

from sb3_ext.common.clean_text import mask_passwords, say
from sb3_ext.common.env_spec import reward_threshold, spec_of
from sb3_ext.common.full_disk import tolerate_full_disk
from sb3_ext.common.usage_error import UsageError
from sb3_ext.runs.facts import RunFacts
from sb3_ext.runs.facts_keeper import FactsKeeper
from sb3_ext.runs.log_file import LogFile
from sb3_ext.runs.rows import RowStream
from sb3_ext.runs.stock import StockCallbacks, iter_callbacks
from sb3_ext.runs.stop_signals import catch_stop_signals, release_stop_signals

__all__ = ["Event", "Phase", "Run"]

Event = Literal["alert", "new_best"]


class Phase(IntEnum):
    """What happens at the end of a training, in this order."""

    #: Before callbacks hear of the end, and not after a failure. An error is raised, not turned into a warning
    FINAL_MODEL = 0
    EVALUATE = 1
    CHECKPOINT = 2
    #: Only if training is complete. SB3 writes rows before it updates, and would lose the last update's numbers
    LAST_ROW = 3
    FILES = 4
    SCREEN = 5
    SUMMARY = 6
    REPORT = 7
    TRACKING = 8


class Run:
    """
    Callbacks join a run with :meth:`of` and don't look for each other.

    :param folder: the run folder, if known
    :param threshold: score at which the environment counts as solved; ``None``: the environment's own
    :param algo: RL Zoo's name of the algorithm; ``None``: from the model's class
    :param make_env: takes a number of environments and returns a function that makes evaluation environments and can be
        pickled by cloudpickle; ``None``: make them like the training environments
    :param axis: x axis of plots and trackers: ``timesteps`` or ``vec_steps`` (one step in every environment)
    :param earlier: the run that this training continues, in the same folder
    :param arguments: of RL Zoo's command line, for a resume
    :param parent: id of the run that the weights come from
    :param log_folder: the folder whose registry lists the run
    :param log_file: gets the start and the end of the run
    :param stop_signals: signals that interrupt a training besides SIGTERM and SIGHUP, such as ``USR1``
    """

    stock = StockCallbacks()
    model: BaseAlgorithm
    rows: RowStream
    facts: RunFacts

    def __init__(
        self,
        folder: str | os.PathLike[str] | None = None,
        threshold: float | None = None,
        algo: str | None = None,
        make_env: Callable[[int], Callable[..., VecEnv]] | None = None,
        axis: str = "timesteps",
        parent: str | None = None,
        log_folder: str | os.PathLike[str] | None = None,
        log_file: LogFile | None = None,
        stop_signals: Iterable[str] = (),
        earlier: RunFacts | None = None,
        arguments: Sequence[str] = (),
    ) -> None:
        self.folder = self.given_folder = None if folder is None else Path(folder)
        self.given_threshold = threshold
        self.env_threshold: float | None = None
        self.error: BaseException | None = None
        self.stop_reason: str | None = None
        self._stop_advice: str | None = None
        #: The metric that each alert is about: the table marks it
        self.alert_metrics: dict[str, str] = {}
        #: Python is about to end: no thread or process can be started
        self.is_at_exit = False
        self.is_over = False
        self.make_env = make_env
        self._algo, self._axis, self._parent, self._stop_signals = algo, axis, parent, stop_signals
        self._log_file = log_file
        self._keeper = FactsKeeper(self, log_folder)
        self._earlier, self._arguments = earlier, [mask_passwords(argument) for argument in arguments]
        self._session: tuple[BaseCallback, float] | None = None
        self._is_complete = False
        self._at_end: defaultdict[Phase, list[Callable[[], None]]] = defaultdict(list)
        self._on: defaultdict[Event, list[Callable[..., None]]] = defaultdict(list)
        # Weak: trainings that failed and that nobody ended must not stay in memory
        self._at_exit = partial(_end_at_exit, weakref.ref(self), os.getpid())

    @classmethod
    def prepare(cls, model: BaseAlgorithm, **known: Any) -> Run:
        """Make the run of the model's next training. ``known`` are parameters of the class."""
        _prepared[model] = run = cls(**known)
        return run

    @classmethod
    def of(cls, callback: BaseCallback) -> Run:
        """The run of the training that is starting; the first callback to ask starts it."""
        model, rows = callback.model, RowStream.of(callback.logger)
        # The same callbacks may be given to `learn` several times
        session = (callback.locals.get("callback", callback), model.start_time)
        run = rows.run
        if run is None or run._session != session:
            if run is not None:
                run.abandon()
            rows.run = run = _prepared.pop(model, None) or cls()
            run._start(model, rows, *session)
        return run

    def _start(self, model: BaseAlgorithm, rows: RowStream, top: BaseCallback, start_time: float) -> None:
        self.given_threshold = self._find_threshold(top)
        self._session, self.rows = (top, start_time), rows
        self.model = model
        self.stock = StockCallbacks(top)
        self.stock.on_new_best(lambda evaluation: self.emit("new_best", evaluation))
        env = model.get_env()
        assert env is not None, "a model in training has an environment"
        thresholds = map(reward_threshold, (env, *(evaluation.eval_env for evaluation in self.stock.evaluations)))
        self.env_threshold = next((threshold for threshold in thresholds if threshold is not None), None)
        self.facts = RunFacts.of(model, self._algo, getattr(spec_of(env), "id", None))
        self.facts.axis, self.facts.parent = self._axis, self._parent
        self.facts.threshold, self.facts.env_threshold = self.given_threshold, self.env_threshold
        self.facts.arguments = self._arguments
        if self._earlier is not None:
            self.facts.resume(self._earlier)
        if self.stock.evaluations:
            self.facts.evaluates, self.facts.deterministic_eval = True, self.stock.evaluations[0].deterministic
        self._started = time.perf_counter()
        rows.add_observer(self._keeper.see_row)
        if self.folder is not None:
            self.keep(self.folder)
        self.folder = self.folder or self.stock.log_folder or _folder_of(model.logger)
        if self._log_file is not None:
            self._log_file.write(f"Run {self.facts.id} starts at step {model.num_timesteps:,}: {self.facts.command}")
        self._listen(top)
        catch_stop_signals(self, self._stop_signals, ctrl_c=self.given_folder is not None)
        atexit.register(self._at_exit)

    def _listen(self, top: BaseCallback) -> None:
        """Wrap ``on_training_end``, which ``learn`` calls when the training is complete."""

        def on_training_end() -> None:
            del top.on_training_end
            self._is_complete = True
            error = self._do(Phase.FINAL_MODEL)
            try:
                if error is None:
                    top.on_training_end()
            # The run ends whatever a callback raises
            except BaseException as raised:
                error = raised
            self.end(error)
            if error is not None:
                raise error

        top.on_training_end = on_training_end  # type: ignore[method-assign]

    @property
    def threshold(self) -> float | None:
        """Mean raw reward at which the environment counts as solved."""
        return self.env_threshold if self.given_threshold is None else self.given_threshold

    def _find_threshold(self, top: BaseCallback) -> float | None:
        """Callbacks may have a threshold too, but all must agree."""
        options = [getattr(callback, "options", None) for callback in iter_callbacks(top)]
        given = [self.given_threshold, *(getattr(of_callback, "threshold", None) for of_callback in options)]
        different = {threshold for threshold in given if threshold is not None}
        if len(different) > 1:
            raise ValueError(f"A training has one threshold, and was given {sorted(different)}: give one of them.")
        return different.pop() if different else None

    @property
    def top(self) -> BaseCallback:
        """The callback that ``learn`` was given, which calls all others."""
        assert self._session is not None, "the training has started"
        return self._session[0]

    @property
    def seconds(self) -> float:
        """Seconds of training; set it to those before a resume."""
        return time.perf_counter() - self._started

    @seconds.setter
    def seconds(self, seconds: float) -> None:
        self._started = time.perf_counter() - seconds

    @property
    def is_interrupted(self) -> bool:
        return isinstance(self.error, KeyboardInterrupt)

    #: Prints at once, above a live table
    say = staticmethod(say)

    def stop(self, reason: str, advice: str | None = None) -> None:
        """
        Call this before a callback's ``_on_step`` returns False.

        :param reason: why training ends here, for ``run.json`` and the report
        :param advice: what to change if it ended too early, for the report
        """
        self.stop_reason, self._stop_advice = reason, advice

    def on(self, event: Event, do: Callable[..., None]) -> None:
        """Call ``do`` at each such event. An error in it becomes a warning."""
        self._on[event].append(do)

    def emit(self, event: Event, *args: Any) -> None:
        for do in self._on[event]:
            try:
                with tolerate_full_disk(self.folder):
                    do(*args)
            # A tracker that can't be reached must not end a training
            except Exception as error:
                warnings.warn(f"At the event {event!r}: {type(error).__name__}: {error}", stacklevel=3)

    def at_end(self, phase: Phase, do: Callable[[], None]) -> None:
        """Call ``do`` once, whatever ended the training: see :attr:`error`. An error in it becomes a warning."""
        self._at_end[phase].append(do)

    def write_last_row(self) -> None:
        """Write what was recorded since the last row when the training is complete."""
        self.at_end(Phase.LAST_ROW, lambda: None if self.error else self.rows.flush(self.model.num_timesteps))

    def keep(self, folder: str | os.PathLike[str]) -> None:
        """Write ``run.json`` into the run folder, now and at the end."""
        folder = Path(folder)
        if self._keeper.keep(folder):
            self.at_end(Phase.REPORT, lambda: self._keeper.save(folder))

    def abandon(self) -> None:
        """End a training that nobody ended before the next one started."""
        self.end(RuntimeError("The training did not end: another one was started."))

    def end(self, error: BaseException | None = None) -> None:
        """
        Run the phases of the end. Only the first call has an effect.

        :param error: what ended the training. Without one, an incomplete training counts as interrupted by Ctrl-C
        """
        if self.is_over:
            return
        self.is_over = True
        self.error = KeyboardInterrupt() if error is None and not self._is_complete else error
        if self._session is None:
            return  # it never started
        vars(self._session[0]).pop("on_training_end", None)
        atexit.unregister(self._at_exit)
        raised: BaseException | None = None
        self.facts.stop_reason, self.facts.stop_advice = self.stop_reason, self._stop_advice
        summary = self._keeper.complete()
        try:
            for phase in Phase:
                raised = self._do(phase) or raised
        finally:
            self._at_end.clear()
            self._on.clear()
            self.rows.forget()
            release_stop_signals(self)
            if self._log_file is not None:
                self._log_file.end(summary, self.error)
        if raised is not None:
            raise raised

    def _do(self, phase: Phase) -> BaseException | None:
        """Return what must be raised when all phases are done: Ctrl-C, or a final model that was not saved."""
        is_final_model = phase is Phase.FINAL_MODEL
        if is_final_model and self.error is not None and not self.is_interrupted:
            return None  # a training that failed has none
        if phase is Phase.REPORT and isinstance(self.error, UsageError):
            return None  # it did not start
        raised: BaseException | None = None
        for do in self._at_end.pop(phase, ()):
            try:
                with nullcontext() if is_final_model else tolerate_full_disk(self.folder):
                    do()
            # Whatever fails, the others must still save what they have
            except BaseException as error:
                if is_final_model or not isinstance(error, Exception):
                    raised = error
                    self.error = self.error or error
                else:
                    what = getattr(do, "__qualname__", repr(do)).replace("._", ".")
                    warnings.warn(f"At the end of the training, {what}: {type(error).__name__}: {error}", stacklevel=4)
        return raised


#: Runs of models that are about to be trained
_prepared: weakref.WeakKeyDictionary[BaseAlgorithm, Run] = weakref.WeakKeyDictionary()


def _end_at_exit(reference: weakref.ref[Run], pid: int) -> None:
    run = reference()
    if run is not None and os.getpid() == pid:  # a forked child must not end its parent's training
        run.is_at_exit = True
        run.end(getattr(sys, "last_value", None))


def _folder_of(logger: Logger) -> Path | None:
    """``None`` if the logger writes no files: SB3 then gives it a temporary folder."""
    has_files = any(isinstance(f, CSVOutputFormat | JSONOutputFormat) for f in logger.output_formats)
    folder = logger.get_dir()
    return Path(folder) if has_files and folder else None
