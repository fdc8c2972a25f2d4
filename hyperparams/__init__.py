"""Hyperparameters in RL Zoo's format, one YAML file an algorithm: ``ppo_ext.yml``, ``reinforce.yml``."""

from pathlib import Path

__all__ = ["hyperparams_file"]


def hyperparams_file(algo: str) -> Path:
    """
    :param algo: name of one of our algorithms as RL Zoo's ``--algo`` takes it
    :return: its default hyperparameter file
    """
    # Not resolved: in an editable checkout the folder is reached through a link.
    return Path(__file__).parent / f"{algo}.yml"
