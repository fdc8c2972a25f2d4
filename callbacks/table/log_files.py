"""Writes the rows of a training to files in the run folder."""

from functools import partial

from stable_baselines3.common.logger import KVWriter, Logger

from sb3_ext.callbacks.base import RunCallback
from sb3_ext.runs.rows import add_log_files
from sb3_ext.runs.run import Phase

__all__ = ["LogFiles"]


class LogFiles(RunCallback):
    """
    Writes the rows of a training to ``progress.csv`` and ``progress.json``.

    :param folder: the run folder; ``None``: RL Zoo's, or that of the training's ``EvalCallback``
    :param verbose: verbosity
    """

    def __init__(self, folder: str | None = None, verbose: int = 0) -> None:
        super().__init__(verbose)
        self.folder = folder

    def _on_training_start(self) -> None:
        folder = self.folder or self.run.folder
        if folder is None:
            raise ValueError("LogFiles doesn't know where to write: give it folder=….")
        added = add_log_files(self.logger, folder)
        self.run.at_end(Phase.FILES, partial(_close, self.logger, added))


def _close(logger: Logger, added: list[KVWriter]) -> None:
    for output_format in added:
        if output_format in logger.output_formats:
            logger.output_formats.remove(output_format)
        output_format.close()
