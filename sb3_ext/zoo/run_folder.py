"""Gives each training its own run folder, even if several start at once."""

import itertools
import os

from rl_zoo3.utils import get_latest_run_id

__all__ = ["claim_folder"]


def claim_folder(wanted: str, log_path: str, env_name: str) -> str:
    """
    Make the folder, or one with a higher number if another training has it. RL Zoo chooses the number long before it
    makes the folder, and would share an existing one.
    """
    os.makedirs(log_path, exist_ok=True)
    first = get_latest_run_id(log_path, env_name) + 1
    numbered = (os.path.join(log_path, f"{env_name}_{number}") for number in itertools.count(first))
    for folder in itertools.chain([wanted], numbered):
        try:
            os.mkdir(folder)  # only one of them can
            return folder
        except FileExistsError:
            continue
    raise AssertionError("unreachable")
