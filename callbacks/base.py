"""The base class of our callbacks: it joins the run of its training."""

from types import TracebackType
from typing import Any, ClassVar, Self

from stable_baselines3.common.callbacks import BaseCallback

from sb3_ext.common.options import Number, Options
from sb3_ext.common.stateful import Stateful
from sb3_ext.common.step_callbacks import does_nothing
from sb3_ext.runs.run import Run
from sb3_ext.runs.stop_signals import raise_if_interrupted

__all__ = ["RunCallback", "ScoreOptions"]


class ScoreOptions(Options):
    """
    Options of callbacks that compare scores with a threshold.

    :param threshold: mean raw reward at which the environment counts as solved, for all callbacks of the training;
        ``None`` for the one in the environment's spec. In a hyperparameter file it is ``ext: {threshold: 475}``
    """

    threshold: Number | None = None


class RunCallback(Stateful, BaseCallback):
    """
    Joins the :class:`Run` of its training before ``_on_training_start``. Register work for the end with
    ``self.run.at_end``, because SB3 doesn't tell callbacks about errors and Ctrl-C.

    After an error in ``learn``, :meth:`close` ends the run, which ``with`` does for you::

        with Report("run") as report:
            model.learn(100_000, callback=report)

    Otherwise the run ends when Python exits.

    When a training is resumed, :meth:`restore` gets what :meth:`state` returned, after ``_on_training_start``: name the
    attributes that must continue in ``state_names``.
    """

    state_names: ClassVar[tuple[str, ...]] = ("n_calls",)
    _run: Run | None = None

    @property
    def run(self) -> Run:
        """The current or last training."""
        assert self._run is not None, "it joins when training starts"
        return self._run

    def on_training_start(self, locals_: dict[str, Any], globals_: dict[str, Any]) -> None:
        self.locals = locals_
        run = Run.of(self)
        if self._run is not None and self._run is not run:
            self._run.abandon()
        self._run = run
        super().on_training_start(locals_, globals_)

    @does_nothing
    def on_step(self) -> bool:
        raise_if_interrupted()
        return super().on_step()

    @does_nothing
    def _on_step(self) -> bool:
        return True

    def say(self, text: str, level: int = 1) -> None:
        """Show a message if ``verbose`` is at least ``level``."""
        if self.verbose >= level:
            self.run.say(text)

    def close(self, error: BaseException | None = None) -> None:
        """End the run, if it has not ended.

        :param error: what ended the training. Without one, an incomplete training counts as interrupted
        """
        if self._run is not None:
            self._run.end(error)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close(error)
