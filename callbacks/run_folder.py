"""Where a training writes its files, for callbacks that were not told."""

from __future__ import annotations

from pathlib import Path

from stable_baselines3.common.callbacks import BaseCallback, EvalCallback
from stable_baselines3.common.logger import CSVOutputFormat, JSONOutputFormat

from sb3_ext.callbacks.nested import all_of

__all__ = ["folder_of_training"]


def folder_of_training(callback: BaseCallback) -> Path | None:
    """
    :param callback: of a training that has started
    :return: the folder of the training's ``EvalCallback``, or of its logger's files; ``None`` where there are neither
    """
    for other in all_of(callback.locals["callback"]):
        if isinstance(other, EvalCallback) and other.log_path is not None:
            return Path(other.log_path).parent
    # Without files, SB3's logger has a temporary folder
    has_files = any(isinstance(f, CSVOutputFormat | JSONOutputFormat) for f in callback.logger.output_formats)
    folder = callback.logger.get_dir()
    return Path(folder) if has_files and folder else None
