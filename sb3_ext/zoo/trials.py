"""Reads a trial of an Optuna study, with errors that say what is missing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rl_zoo3.hyperparams_opt import HYPERPARAMS_CONVERTER

from sb3_ext.common.clean_text import mask_passwords

__all__ = ["read_trial"]


def read_trial(
    load: Callable[..., dict[str, Any]], algo: str, storage: str, study_name: str, trial_id: int | None, convert: bool
) -> dict[str, Any]:
    """
    :param load: RL Zoo's ``ExperimentManager.load_trial``
    :param algo: one of our algorithms
    :param storage: where the study is
    :param study_name: name of the study
    :param trial_id: number of the trial
    :param convert: turn the trial's parameters into hyperparameters
    :raises ValueError: when there is no such study or trial, or it belongs to another algorithm
    """
    where = f"study {study_name!r} in {mask_passwords(storage)}"
    try:
        params = load(storage, study_name, trial_id, convert=False)
    except KeyError:
        raise ValueError(f"There is no {where}: see --study-name and --storage.") from None
    except IndexError:
        raise ValueError(f"There is no trial {trial_id} in the {where}: trials count from 0.") from None
    try:
        return HYPERPARAMS_CONVERTER[algo](params) if convert else params
    except KeyError as error:
        raise ValueError(
            f"Trial {trial_id} of the {where} has no {error}: it was made for another algorithm than {algo}, "
            "or it failed before its parameters were chosen."
        ) from None
