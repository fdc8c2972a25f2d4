"""SB3's own callbacks among those of a training, found once."""

from collections.abc import Callable, Iterator
from pathlib import Path

from stable_baselines3.common.callbacks import (
    BaseCallback,
    CallbackList,
    CheckpointCallback,
    EvalCallback,
    EventCallback,
    ProgressBarCallback,
)

__all__ = ["StockCallbacks", "iter_callbacks"]


class StockCallbacks:
    """``evaluations`` includes our own ``Evaluation``."""

    def __init__(self, top: BaseCallback | None = None) -> None:
        found = list(iter_callbacks(top))
        self.evaluations = [callback for callback in found if isinstance(callback, EvalCallback)]
        self.checkpoints = [callback for callback in found if isinstance(callback, CheckpointCallback)]
        self.has_progress_bar = any(isinstance(callback, ProgressBarCallback) for callback in found)

    @property
    def log_folder(self) -> Path | None:
        """Where evaluations are logged."""
        return next((Path(c.log_path).parent for c in self.evaluations if c.log_path is not None), None)

    @property
    def best_model_folder(self) -> Path | None:
        folders = [callback.best_model_save_path for callback in self.evaluations]
        return next((Path(folder) for folder in folders if folder is not None), None)

    def on_new_best(self, tell: Callable[[EvalCallback], None]) -> None:
        """Call ``tell`` after each new best model was saved, before the user's own callback for that event."""
        for evaluation in self.evaluations:
            present = evaluation.callback_on_new_best
            if isinstance(present, _NewBest):  # `learn` was called with the same callbacks before
                present.tell = tell
                continue
            new_best = _NewBest(tell, evaluation, present)
            # Not init_callback(), which would initialise the user's callback a second time
            new_best.model, new_best.parent = evaluation.model, evaluation
            evaluation.callback_on_new_best = new_best


class _NewBest(EventCallback):
    def __init__(
        self, tell: Callable[[EvalCallback], None], evaluation: EvalCallback, present: BaseCallback | None
    ) -> None:
        super().__init__()
        self.callback = present  # whose parent stays the evaluation
        self.tell, self._evaluation = tell, evaluation

    def _on_step(self) -> bool:
        self.tell(self._evaluation)
        return self._on_event()


def iter_callbacks(callback: BaseCallback | None) -> Iterator[BaseCallback]:
    """A callback, and all callbacks that it calls."""
    if callback is None:
        return
    yield callback
    if isinstance(callback, CallbackList):
        for child in callback.callbacks:
            yield from iter_callbacks(child)
    if isinstance(callback, EventCallback):
        yield from iter_callbacks(callback.callback)
    if isinstance(callback, EvalCallback):
        yield from iter_callbacks(callback.callback_on_new_best)
